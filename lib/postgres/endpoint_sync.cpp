#include "postgres/endpoint_sync.hpp"

#include <algorithm>

#include "postgres/statements.hpp"

namespace outboxd::postgres {

namespace {

constexpr base::milliseconds deadline{30'000};

// Locks one row; says whether it was new, changed or left alone (no row). What the file itself disabled or paused it takes back; any other reason stays.
constexpr std::string_view upsert_text = R"(
INSERT INTO @schema@.endpoint AS e (name, url, tenant_id, events, settings, managed_by, enabled, paused, disabled_reason, disabled_at)
VALUES ($1, $2, $3, $4, $5, 'config', $6, $7, CASE WHEN NOT $6 THEN $8 WHEN $7 THEN $9 END, CASE WHEN NOT $6 THEN clock_timestamp() END)
ON CONFLICT (name) DO UPDATE SET
    url = excluded.url, tenant_id = excluded.tenant_id, events = excluded.events, settings = excluded.settings, managed_by = 'config', updated_at = clock_timestamp(),
    enabled = $6 AND (e.enabled OR coalesce(e.disabled_reason IN ($8, $10), false)),
    paused = $7 OR (e.paused AND e.disabled_reason IS DISTINCT FROM $9),
    disabled_reason = CASE WHEN NOT $6 THEN CASE WHEN e.enabled THEN $8 ELSE e.disabled_reason END
                           WHEN NOT e.enabled AND e.disabled_reason IS DISTINCT FROM $8 AND e.disabled_reason IS DISTINCT FROM $10 THEN e.disabled_reason
                           WHEN $7 AND NOT e.paused THEN $9
                           WHEN e.paused AND $7 THEN e.disabled_reason END,
    disabled_at = CASE WHEN NOT $6 AND e.enabled THEN clock_timestamp() WHEN $6 AND coalesce(e.disabled_reason IN ($8, $10), false) THEN NULL ELSE e.disabled_at END
WHERE (e.url, e.tenant_id, e.events, e.settings, e.managed_by) IS DISTINCT FROM (excluded.url, excluded.tenant_id, excluded.events, excluded.settings, 'config')
   OR (e.enabled AND NOT $6) OR (NOT e.enabled AND $6 AND coalesce(e.disabled_reason IN ($8, $10), false))
   OR (NOT e.paused AND $7) OR (e.paused AND NOT $7 AND e.disabled_reason IS NOT DISTINCT FROM $9)
RETURNING xmax = 0)";

// The secrets of one endpoint are replaced as a whole when they differ in any way: the newest stands first, by created_at.
constexpr std::string_view drop_secrets_text = R"(
DELETE FROM @schema@.endpoint_secret WHERE endpoint = $1 AND (
    SELECT array_agg(CASE WHEN expires_at IS NULL THEN secret ELSE secret || ' expires' END ORDER BY created_at DESC, id DESC) FROM @schema@.endpoint_secret WHERE endpoint = $1) IS DISTINCT FROM $2)";
constexpr std::string_view add_secrets_text = R"(
INSERT INTO @schema@.endpoint_secret (endpoint, secret, created_at)
SELECT $1, u.secret, clock_timestamp() - u.nth * interval '1 millisecond' FROM unnest($2) WITH ORDINALITY u(secret, nth)
WHERE NOT EXISTS (SELECT FROM @schema@.endpoint_secret WHERE endpoint = $1))";

constexpr std::string_view remove_text = R"(
UPDATE @schema@.endpoint SET enabled = false, disabled_reason = $2, disabled_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE managed_by = 'config' AND enabled AND NOT (name = ANY ($1)) RETURNING name)";

constexpr std::string_view setting_text = R"(
INSERT INTO @schema@.setting AS s (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE s.value <> excluded.value)";

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
    const std::string& schema;
    const config::config& configuration;
    sync_report& report;
};

asio::awaitable<base::result<std::vector<std::string>>> foreign_names(sync_work w) {
    const auto text = with_schema("SELECT name FROM @schema@.endpoint WHERE managed_by <> 'config' ORDER BY name", w.schema);
    auto r = co_await w.db.query(text, {}, deadline);
    if (!r) co_return r.error();
    std::vector<std::string> names;
    for (int row = 0; row < r->rows(); ++row) names.push_back(r->string(row, 0));
    co_return names;
}

asio::awaitable<base::result<void>> write_one(sync_work w, const config::endpoint_config& e, bool foreign) {
    const auto upsert = with_schema(upsert_text, w.schema);
    auto r = co_await w.db.query(upsert, upsert_params(e), deadline);
    if (!r) co_return r.error();
    const auto drop = with_schema(drop_secrets_text, w.schema);
    auto dropped = co_await w.db.query(drop, secret_params(e), deadline);
    if (!dropped) co_return dropped.error();
    const auto add = with_schema(add_secrets_text, w.schema);
    auto added = co_await w.db.query(add, secret_params(e), deadline);
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
    const auto text = with_schema(remove_text, w.schema);
    params gone;
    gone.text_array(names).typed_text(removed_reason);
    auto removed = co_await w.db.query(text, std::move(gone), deadline);
    if (!removed) co_return removed.error();
    for (int row = 0; row < removed->rows(); ++row) w.report.removed.push_back(removed->string(row, 0));
    const auto set = with_schema(setting_text, w.schema);
    for (const auto& [name, value] : settings_of(w.configuration)) {
        params one;
        one.typed_text(name).typed_text(value);
        auto written = co_await w.db.query(set, std::move(one), deadline);
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
    sync_report report;
    auto begun = co_await db.script("BEGIN ISOLATION LEVEL READ COMMITTED", deadline);
    if (!begun) co_return begun.error();
    auto written = co_await write_all(sync_work{db, schema, *configuration, report});
    if (!written) co_return written.error();  // closing the connection rolls back
    auto ended = co_await db.script("COMMIT", deadline);
    if (!ended) co_return ended.error();
    db.close();
    co_return report;
}

}  // namespace outboxd::postgres
