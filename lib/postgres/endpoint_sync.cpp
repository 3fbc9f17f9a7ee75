#include "postgres/endpoint_sync.hpp"

#include <algorithm>

#include "postgres/sync_statements.hpp"

namespace outboxd::postgres {

namespace {

constexpr base::milliseconds deadline{30'000};

std::vector<const config::endpoint_config*> by_name(const config::config& c) {
    std::vector<const config::endpoint_config*> list;
    for (const auto& e : c.endpoints) list.push_back(&e);
    // One order for all, so that two relays that start together wait for each other and never deadlock.
    std::sort(list.begin(), list.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
    return list;
}

params upsert_params(const config::endpoint_config& e) {
    params p;
    p.typed_text(e.name).typed_text(e.url).typed_text(e.tenant_id).text_array(e.events).jsonb(e.settings_json.empty() ? "{}" : e.settings_json);
    p.boolean(e.enabled).boolean(e.paused).typed_text(disabled_reason).typed_text(paused_reason).typed_text(removed_reason);
    return p;
}

params secret_params(const config::endpoint_config& e) {
    params p;
    p.typed_text(e.name).begin_array(type_oid::text_array, e.secrets.size());
    for (const auto& s : e.secrets) p.element(s.reveal());
    return p;
}

struct sync_work {
    connection& db;
    const sync_statements& sql;
    const config::config& configuration;
    sync_report& report;
};

asio::awaitable<base::result<std::vector<std::string>>> foreign_names(sync_work w) {
    auto r = co_await w.db.query(w.sql.foreign_names, {}, deadline);
    if (!r) co_return r.error();
    std::vector<std::string> names;
    for (int row = 0; row < r->rows(); ++row) names.push_back(r->string(row, 0));
    co_return names;
}

asio::awaitable<base::result<void>> write_one(sync_work w, const config::endpoint_config& e, bool foreign) {
    auto r = co_await w.db.query(w.sql.write_endpoint, upsert_params(e), deadline);
    if (!r) co_return r.error();
    auto dropped = co_await w.db.query(w.sql.drop_secrets, secret_params(e), deadline);
    if (!dropped) co_return dropped.error();
    auto added = co_await w.db.query(w.sql.add_secrets, secret_params(e), deadline);
    if (!added) co_return added.error();
    if (r->rows() == 1 && r->boolean(0, 0)) {
        w.report.added.push_back(e.name);
    } else if (foreign) {
        w.report.taken_over.push_back(e.name);
    } else if (r->rows() == 1 || dropped->affected() > 0 || added->affected() > 0) {
        w.report.changed.push_back(e.name);
    }
    co_return base::result<void>{};
}

// What functions of the schema must know of the file. In one order, as the endpoints.
std::vector<std::pair<std::string, std::string>> settings_of(const config::config& c) {
    return {{"inline_limit", std::to_string(c.routing.inline_limit)},
            {"on_failed", c.defaults.on_failed == config::on_failed::block ? "block" : "continue"},
            {"operator_events", c.relay.operator_events ? "true" : "false"}};
}

asio::awaitable<base::result<void>> write_all(sync_work w) {
    auto foreign = co_await foreign_names(w);
    if (!foreign) co_return foreign.error();
    std::vector<std::string> names;
    for (const auto* e : by_name(w.configuration)) {
        names.push_back(e->name);
        const bool taken = std::binary_search(foreign->begin(), foreign->end(), e->name);
        auto done = co_await write_one(w, *e, taken);
        if (!done) co_return done.error();
    }
    params gone;
    gone.text_array(names).typed_text(removed_reason);
    auto removed = co_await w.db.query(w.sql.disable_absent, std::move(gone), deadline);
    if (!removed) co_return removed.error();
    for (int row = 0; row < removed->rows(); ++row) w.report.removed.push_back(removed->string(row, 0));
    for (const auto& [name, value] : settings_of(w.configuration)) {
        params one;
        one.typed_text(name).typed_text(value);
        auto written = co_await w.db.query(w.sql.write_setting, std::move(one), deadline);
        if (!written) co_return written.error();
    }
    co_return base::result<void>{};
}

}  // namespace

asio::awaitable<base::result<sync_report>> sync_endpoints(asio::any_io_executor executor, connect_options options, std::string schema, std::shared_ptr<const config::config> configuration) {
    connection db{std::move(executor)};
    options.purpose = "sync";
    auto opened = co_await db.open(std::move(options), deadline);
    if (!opened) co_return opened.error();
    const sync_statements sql{schema};
    sync_report report;
    auto begun = co_await db.script("BEGIN ISOLATION LEVEL READ COMMITTED", deadline);
    if (!begun) co_return begun.error();
    auto written = co_await write_all(sync_work{db, sql, *configuration, report});
    if (!written) co_return written.error();  // closing the connection rolls back
    auto ended = co_await db.script("COMMIT", deadline);
    if (!ended) co_return ended.error();
    db.close();
    co_return report;
}

}  // namespace outboxd::postgres
