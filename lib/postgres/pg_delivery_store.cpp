#include "postgres/pg_delivery_store.hpp"

#include <algorithm>

#include "base/encoding.hpp"
#include "postgres/migrations.hpp"
#include "postgres/row_mapping.hpp"

namespace outboxd::postgres {

namespace {

connect_options for_purpose(connect_options options, std::string purpose) {
    options.purpose = std::move(purpose);
    return options;
}

// The heartbeat must fail in time for another try within the same lease.
base::milliseconds beat_deadline(base::milliseconds lease) { return std::clamp(lease / 6, base::milliseconds{200}, base::milliseconds{10'000}); }

}  // namespace

pg_delivery_store::pg_delivery_store(asio::any_io_executor executor, const connect_options& options, std::string schema, store_deadlines deadlines)
    : schema_(std::move(schema)),
      sql_(schema_),
      deadlines_(deadlines),
      lease_(executor, for_purpose(options, "lease")),
      control_(executor, for_purpose(options, "control")),
      claim_(executor, for_purpose(options, "claim")),
      settle_(executor, for_purpose(options, "settle")),
      maintenance_(executor, for_purpose(options, "maintenance")) {}

pg_delivery_store::~pg_delivery_store() = default;

asio::awaitable<base::result<query_result>> pg_delivery_store::one_row(session& s, const std::string& sql, params p, base::milliseconds deadline) {
    auto r = co_await s.query(sql, std::move(p), deadline);
    if (r && r->rows() != 1) co_return base::make_error(base::errc::database_error, "the database gave " + std::to_string(r->rows()) + " rows where one was expected");
    co_return r;
}

ports::async_result<ports::claim_reply> pg_delivery_store::claim(ports::claim_request request) {
    auto p = claim_params(request);
    auto r = co_await claim_.query(sql_.claim, std::move(p), deadlines_.claim);
    if (!r) co_return r.error();
    co_return read_claim(*r);
}

ports::async_result<int> pg_delivery_store::bump_epoch(std::int64_t relay) {
    params p;
    p.int8(relay);
    auto r = co_await one_row(claim_, sql_.bump_epoch, std::move(p), deadlines_.claim);
    if (!r) co_return r.error();
    if (r->is_null(0, 0)) co_return base::make_error(base::errc::lease_lost, "relay " + std::to_string(relay) + " is not registered any more");
    co_return static_cast<int>(r->integer(0, 0));
}

ports::async_result<std::int64_t> pg_delivery_store::release_unknown(std::int64_t relay, std::vector<std::int64_t> held) {
    params p;
    p.int8(relay).int8_array(held);
    auto r = co_await one_row(claim_, sql_.release_unknown, std::move(p), deadlines_.repair);
    if (!r) co_return r.error();
    co_return r->integer(0, 0);
}

ports::async_result<std::vector<std::int64_t>> pg_delivery_store::settle(std::int64_t relay, const std::vector<lifecycle::settlement>& batch) {
    std::vector<std::int64_t> changed;
    if (batch.empty()) co_return changed;
    auto p = settle_params(relay, batch, base::boot_clock::now());
    p.step(base::kill_step::after_settle_sent);
    base::kill_point(base::kill_step::before_settle);
    auto r = co_await settle_.query(sql_.settle, std::move(p), deadlines_.settle);
    if (!r) co_return r.error();
    changed.reserve(static_cast<std::size_t>(r->rows()));
    for (int row = 0; row < r->rows(); ++row) changed.push_back(r->integer(row, 0));
    co_return changed;
}

ports::async_result<ports::registration> pg_delivery_store::register_relay(ports::relay_identity who, base::milliseconds lease) {
    params p;
    p.typed_text(who.name).typed_text(who.host).int4(who.pid).typed_text(who.version).interval(lease);
    auto r = co_await one_row(lease_, sql_.register_relay, std::move(p), deadlines_.control);
    if (!r) co_return r.error();
    co_return ports::registration{r->integer(0, 0), static_cast<int>(r->integer(0, 1))};
}

ports::async_result<ports::beat_reply> pg_delivery_store::beat(ports::beat_request request) {
    params p;
    p.int8(request.relay).interval(request.lease).int4(request.in_flight).boolean(request.listening).jsonb(request.info.empty() ? "{}" : request.info);
    auto r = co_await one_row(lease_, sql_.beat, std::move(p), beat_deadline(request.lease));
    if (!r) co_return r.error();
    co_return ports::beat_reply{r->boolean(0, 0), static_cast<int>(r->integer(0, 1)), r->time(0, 2)};
}

ports::async_result<void> pg_delivery_store::set_wake(std::int64_t relay, bool wake) {
    params p;
    p.int8(relay).boolean(wake);
    auto r = co_await control_.query(sql_.set_wake, std::move(p), deadlines_.control);
    if (!r) co_return r.error();
    co_return base::result<void>{};
}

ports::async_result<std::int64_t> pg_delivery_store::retire_relay(std::int64_t relay) {
    params p;
    p.int8(relay);
    auto r = co_await one_row(lease_, sql_.retire_relay, std::move(p), deadlines_.repair);
    if (!r) co_return r.error();
    co_return r->integer(0, 0);
}

ports::async_result<std::string> pg_delivery_store::endpoint_digest() {
    auto r = co_await one_row(control_, sql_.endpoint_digest, {}, deadlines_.control);
    if (!r) co_return r.error();
    co_return r->string(0, 0);
}

ports::async_result<ports::shared_state> pg_delivery_store::load_endpoints() {
    ports::shared_state state;
    auto digest = co_await endpoint_digest();  // before the rows: a change in between then shows as another digest
    if (!digest) co_return digest.error();
    state.digest = std::move(*digest);
    auto r = co_await control_.query(sql_.load_endpoints, {}, deadlines_.control);
    if (!r) co_return r.error();
    state.endpoints = read_endpoints(*r);
    co_return state;
}

ports::async_result<void> pg_delivery_store::disable_endpoint(std::string name, std::string reason) {
    params p;
    p.typed_text(name).typed_text(reason);
    auto r = co_await control_.query(sql_.disable_endpoint, std::move(p), deadlines_.control);
    if (!r) co_return r.error();
    co_return base::result<void>{};
}

ports::async_result<std::vector<ports::disabled_endpoint>> pg_delivery_store::note_endpoints(std::vector<ports::endpoint_note> notes) {
    std::vector<ports::disabled_endpoint> disabled;
    if (notes.empty()) co_return disabled;
    auto p = note_params(notes);
    auto r = co_await control_.query(sql_.endpoint_health, std::move(p), deadlines_.control);
    if (!r) co_return r.error();
    for (int row = 0; row < r->rows(); ++row) disabled.push_back({r->string(row, 0), r->string(row, 1)});
    co_return disabled;
}

ports::async_result<std::vector<ports::circuit_row>> pg_delivery_store::load_circuits() {
    auto r = co_await control_.query(sql_.load_circuits, {}, deadlines_.control);
    if (!r) co_return r.error();
    std::vector<ports::circuit_row> rows;
    for (int row = 0; row < r->rows(); ++row) rows.push_back(read_circuit(*r, row));
    co_return rows;
}

ports::async_result<ports::circuit_row> pg_delivery_store::circuit_trip(std::string lane, lifecycle::circuit_settings settings, std::string error) {
    params p;
    p.typed_text(lane).int4(settings.failures).interval(settings.open_for).interval(settings.max_open).typed_text(error);
    auto r = co_await one_row(control_, sql_.circuit_trip, std::move(p), deadlines_.control);
    if (!r) co_return r.error();
    co_return read_circuit(*r, 0);
}

ports::async_result<bool> pg_delivery_store::circuit_probe(std::string lane, std::int64_t relay, int max_probes, base::milliseconds hold) {
    params p;
    p.typed_text(lane).int8(relay).int4(max_probes).interval(hold);
    auto r = co_await one_row(control_, sql_.circuit_probe, std::move(p), deadlines_.control);
    if (!r) co_return r.error();
    co_return r->boolean(0, 0);
}

ports::async_result<lifecycle::circuit_state> pg_delivery_store::circuit_result(std::string lane, std::int64_t relay, std::optional<bool> ok, lifecycle::circuit_settings settings, std::string error) {
    params p;
    p.typed_text(lane).int8(relay);
    if (ok) {
        p.boolean(*ok);
    } else {
        p.null();
    }
    p.int4(settings.successes).interval(settings.open_for).interval(settings.max_open).typed_text(error);
    auto r = co_await one_row(control_, sql_.circuit_result, std::move(p), deadlines_.control);
    if (!r) co_return r.error();
    const auto state = r->text(0, 0);
    co_return state == "open" ? lifecycle::circuit_state::open : state == "half_open" ? lifecycle::circuit_state::half_open : lifecycle::circuit_state::closed;
}

ports::async_result<std::vector<ports::rescued_row>> pg_delivery_store::rescue(std::int64_t relay, int max_rescues, int limit) {
    params p;
    p.int8(relay).int4(max_rescues).int4(limit).step(base::kill_step::in_rescue);
    auto r = co_await maintenance_.query(sql_.rescue, std::move(p), deadlines_.maintenance);
    if (!r) co_return r.error();
    std::vector<ports::rescued_row> rows;
    for (int row = 0; row < r->rows(); ++row) rows.push_back({r->integer(row, 0), r->string(row, 1), r->integer(row, 2), r->string(row, 3)});
    co_return rows;
}

ports::async_result<std::int64_t> pg_delivery_store::route(int limit, base::milliseconds grace) {
    params p;
    p.int4(limit).interval(grace);
    auto r = co_await one_row(maintenance_, sql_.route, std::move(p), deadlines_.maintenance);
    if (!r) co_return r.error();
    co_return r->integer(0, 0);
}

ports::async_result<std::int64_t> pg_delivery_store::sweep(int batch) {
    params p;
    p.int4(batch);
    auto r = co_await one_row(maintenance_, sql_.sweep, std::move(p), deadlines_.maintenance);
    if (!r) co_return r.error();
    co_return r->integer(0, 0);
}

ports::async_result<std::int64_t> pg_delivery_store::purge(base::milliseconds published, base::milliseconds failed, base::milliseconds attempts, int batch) {
    params p;
    p.interval(published).interval(failed).interval(attempts).int4(batch);
    auto r = co_await one_row(maintenance_, sql_.purge, std::move(p), deadlines_.maintenance);
    if (!r) co_return r.error();
    co_return r->integer(0, 0);
}

ports::async_result<ports::delivery_store::counts> pg_delivery_store::count() {
    auto r = co_await one_row(maintenance_, sql_.count, {}, deadlines_.maintenance);
    if (!r) co_return r.error();
    co_return counts{r->integer(0, 0), r->integer(0, 1), r->integer(0, 2), r->integer(0, 3), r->integer(0, 4), r->real(0, 5), r->integer(0, 6)};
}

ports::async_result<std::optional<ports::delivery_store::dead_rows>> pg_delivery_store::find_dead_rows() {
    std::optional<dead_rows> found;
    auto r = co_await maintenance_.query(sql_.dead_rows, {}, deadlines_.control);
    if (!r) co_return r.error();
    if (r->rows() > 0) found = dead_rows{r->string(0, 0), r->integer(0, 1), base::printable(r->text(0, 2), 300)};
    co_return found;
}

ports::async_result<void> pg_delivery_store::check_ready() {
    auto facts = co_await one_row(control_, sql_.server_facts, {}, deadlines_.control);
    if (!facts) co_return facts.error();
    if (facts->boolean(0, 1)) co_return base::make_error(base::errc::database_read_only, "the database is read-only (" + control_.description() + ")");
    if (facts->text(0, 0) != "UTF8") co_return base::make_error(base::errc::database_schema, "the database's encoding is " + facts->string(0, 0) + "; it must be UTF8");
    auto version = co_await one_row(control_, sql_.schema_version, {}, deadlines_.control);
    if (!version) {
        if (version.error().sqlstate != "42P01" && version.error().sqlstate != "3F000") co_return version.error();
        co_return base::error{base::errc::database_schema, "schema " + schema_ + " has no outboxd tables yet: run `outboxd migrate`", version.error().sqlstate};
    }
    const auto have = version->integer(0, 0);
    const auto want = newest_migration();
    if (have < want) co_return base::make_error(base::errc::database_schema, "schema " + schema_ + " is at version " + std::to_string(have) + ", this program needs " + std::to_string(want) + ": run `outboxd migrate`");
    if (have > want) co_return base::make_error(base::errc::database_schema, "schema " + schema_ + " is at version " + std::to_string(have) + ", newer than this program's " + std::to_string(want) + ": install the newer outboxd");
    auto shape = co_await control_.query(sql_.shape, {}, deadlines_.control);
    if (!shape) co_return shape.error();
    if (shape->rows() == 0) co_return base::result<void>{};
    std::string text = "schema " + schema_ + " is not as expected: ";
    for (int row = 0; row < shape->rows(); ++row) text += (row == 0 ? "" : "; ") + shape->string(row, 0);
    const bool rights = shape->text(0, 0).starts_with("the role");
    co_return base::make_error(rights ? base::errc::database_denied : base::errc::database_schema, text);
}

ports::async_result<void> pg_delivery_store::probe_wakeup(std::string payload) {
    params p;
    p.typed_text(wake_channel(schema_)).typed_text(payload);
    auto r = co_await control_.query(sql_.probe_wakeup, std::move(p), deadlines_.control);
    if (!r) co_return r.error();
    co_return base::result<void>{};
}

void pg_delivery_store::abort() {
    for (auto* s : {&lease_, &control_, &claim_, &settle_, &maintenance_}) s->abort();
}

void pg_delivery_store::close() {
    for (auto* s : {&lease_, &control_, &claim_, &settle_, &maintenance_}) s->close();
}

}  // namespace outboxd::postgres
