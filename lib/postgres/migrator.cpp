#include "postgres/migrator.hpp"

#include <algorithm>

#include "base/kill_hook.hpp"
#include "postgres/statements.hpp"

namespace outboxd::postgres {

namespace {

using namespace std::chrono_literals;
constexpr base::milliseconds short_deadline{30'000};
constexpr base::milliseconds long_deadline{3'600'000};  // waiting for another migrator, building an index on a big table
constexpr int lock_tries = 5;

// The lock lives as long as the transaction, so poolers do not matter. A migration must never queue up in front of the applications: it gives up its place after ten seconds and tries again.
constexpr std::string_view begin_text = R"(
BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL client_min_messages = warning;
SET LOCAL lock_timeout = 0;
SELECT pg_advisory_xact_lock(hashtextextended('outboxd migrate ' || '@schema@', 0));
SET LOCAL lock_timeout = '10s')";

constexpr std::string_view table_text = R"(CREATE TABLE IF NOT EXISTS @schema@.migration (
    version int PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT clock_timestamp()))";

std::string title(const migration& m) { return std::to_string(m.version) + " " + std::string{m.name}; }

// As a literal of standard_conforming_strings.
std::string quote_literal(std::string_view text) {
    std::string quoted = "'";
    for (const char c : text) {
        if (c == '\'') quoted.push_back('\'');
        quoted.push_back(c);
    }
    return quoted + "'";
}

std::string insert_text(const migration& m, std::string_view schema) {
    return with_schema("INSERT INTO @schema@.migration (version, name, checksum) VALUES (", schema) + std::to_string(m.version) + ", " + quote_literal(m.name) + ", " + quote_literal(m.checksum) +
           ") ON CONFLICT (version) DO NOTHING";
}

}  // namespace

migrator::migrator(asio::any_io_executor executor, connect_options options, std::string schema, std::span<const migration> known)
    : connection_(std::move(executor)), options_(std::move(options)), schema_(std::move(schema)), known_(known) {
    options_.purpose = "migrate";
}

base::error migrator::explain(base::error e, const std::string& what) const {
    if (e.sqlstate == "42501") {
        e.text = what + ": the role lacks a right; it must own schema " + schema_ + ", or have CREATE on the database so that it can make it. " + e.text;
        return e;
    }
    if (!e.sqlstate.empty() && (e.code == base::errc::database_error || e.code == base::errc::database_schema)) e.code = base::errc::database_schema;
    e.text = what + ": " + e.text;
    return e;
}

asio::awaitable<base::result<void>> migrator::open() {
    if (connection_.is_open()) co_return base::result<void>{};
    auto opened = co_await connection_.open(options_, short_deadline);
    if (!opened) co_return opened.error();
    auto checked = co_await check_server();
    co_return checked;
}

asio::awaitable<base::result<void>> migrator::check_server() {
    auto facts = co_await connection_.query("SELECT current_setting('server_encoding'), pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on', current_setting('server_version_num')::int",
                                            {}, short_deadline);
    if (!facts) co_return facts.error();
    const auto where = " (" + connection_.description() + ")";
    if (facts->text(0, 0) != "UTF8") {
        co_return base::make_error(base::errc::database_schema, "the database's encoding is " + facts->string(0, 0) + "; outboxd needs UTF8: create the database with ENCODING 'UTF8'" + where);
    }
    if (facts->boolean(0, 1)) co_return base::make_error(base::errc::database_read_only, "the database is read-only" + where);
    if (facts->integer(0, 2) < 130000) co_return base::make_error(base::errc::database_schema, "the server is older than PostgreSQL 13" + where);
    co_return base::result<void>{};
}

asio::awaitable<base::result<void>> migrator::begin() {
    const auto text = with_schema(begin_text, schema_);
    auto begun = co_await connection_.script(text, long_deadline);
    if (!begun) co_return begun.error();
    co_return base::result<void>{};
}

asio::awaitable<base::result<void>> migrator::create_schema() {
    auto begun = co_await begin();
    if (!begun) co_return begun.error();
    params name;
    name.typed_text(quote_identifier(schema_));
    auto there = co_await connection_.query("SELECT to_regnamespace($1) IS NOT NULL, EXISTS (SELECT FROM pg_class WHERE relname = 'migration' AND relnamespace = to_regnamespace($1))", std::move(name),
                                            short_deadline);
    if (!there) co_return there.error();
    // Asked first: CREATE ... IF NOT EXISTS wants the right to create even where nothing is to be done.
    std::string text;
    if (!there->boolean(0, 0)) text += with_schema("CREATE SCHEMA @schema@;", schema_);
    if (!there->boolean(0, 1)) text += with_schema(table_text, schema_) + ";";
    text += "COMMIT";
    auto made = co_await connection_.script(text, short_deadline);
    if (made) co_return base::result<void>{};
    connection_.close();
    co_return explain(made.error(), "schema " + schema_ + " cannot be created");
}

asio::awaitable<base::result<std::vector<migrator::applied_row>>> migrator::read_applied() {
    const auto text = with_schema("SELECT version, checksum, to_char(applied_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') FROM @schema@.migration ORDER BY version", schema_);
    auto r = co_await connection_.query(text, {}, short_deadline);
    if (!r) co_return r.error();
    std::vector<applied_row> rows;
    for (int row = 0; row < r->rows(); ++row) rows.push_back({static_cast<int>(r->integer(row, 0)), r->string(row, 1), r->string(row, 2)});
    co_return rows;
}

base::result<void> migrator::check_applied(const std::vector<applied_row>& rows) const {
    for (const auto& row : rows) {
        const auto hit = std::find_if(known_.begin(), known_.end(), [&](const migration& m) { return m.version == row.version; });
        if (hit == known_.end()) {
            return base::make_error(base::errc::database_schema, "schema " + schema_ + " is at version " + std::to_string(rows.back().version) + ", this program knows " +
                                                                     std::to_string(known_.empty() ? 0 : known_.back().version) + ": install the newer outboxd");
        }
        if (hit->checksum != row.checksum) {
            return base::make_error(base::errc::database_schema, "migration " + title(*hit) + " was applied to schema " + schema_ +
                                                                     " with another text than this program carries (checksum differs): they do not belong together, nothing was changed");
        }
    }
    return {};
}

asio::awaitable<base::result<bool>> migrator::apply_in_transaction(const migration& m) {
    auto begun = co_await begin();
    if (!begun) co_return begun.error();
    auto rows = co_await read_applied();  // anew under the lock: another process may have been quicker
    if (!rows) co_return rows.error();
    const bool done = std::any_of(rows->begin(), rows->end(), [&](const applied_row& r) { return r.version == m.version; });
    if (done) {
        auto ended = co_await connection_.script("ROLLBACK", short_deadline);
        if (!ended) co_return ended.error();
        co_return false;
    }
    const auto text = with_schema(m.text, schema_);
    auto ran = co_await connection_.script(text, long_deadline);
    if (!ran) co_return ran.error();
    base::kill_point(base::kill_step::in_migrate);
    const auto note = insert_text(m, schema_) + "; COMMIT";
    auto noted = co_await connection_.script(note, short_deadline);
    if (!noted) co_return noted.error();
    co_return true;
}

// For what PostgreSQL refuses inside a transaction (CREATE INDEX CONCURRENTLY): one statement that may be run twice.
asio::awaitable<base::result<bool>> migrator::apply_alone(const migration& m) {
    const auto text = with_schema(m.text, schema_);
    auto ran = co_await connection_.script(text, long_deadline);
    if (!ran) co_return ran.error();
    const auto note = insert_text(m, schema_);
    auto noted = co_await connection_.script(note, short_deadline);
    if (!noted) co_return noted.error();
    co_return true;
}

asio::awaitable<base::result<bool>> migrator::apply_one(const migration& m) {
    for (int turn = 1;; ++turn) {
        auto opened = co_await open();
        if (!opened) co_return opened.error();
        base::result<bool> done = false;
        if (m.in_transaction) {
            done = co_await apply_in_transaction(m);
        } else {
            done = co_await apply_alone(m);
        }
        if (done) co_return *done;
        connection_.close();  // ends the transaction, whatever state it is in
        const auto why = done.error();
        const bool again = why.sqlstate == "55P03" || why.sqlstate == "40P01";
        if (!again || turn == lock_tries) co_return explain(why, "migration " + title(m) + " failed and was taken back");
    }
}

asio::awaitable<base::result<std::vector<std::string>>> migrator::apply() {
    auto opened = co_await open();
    if (!opened) co_return opened.error();
    auto created = co_await create_schema();
    if (!created) co_return created.error();
    auto rows = co_await read_applied();
    if (!rows) co_return explain(rows.error(), "the migration table cannot be read");
    const auto fits = check_applied(*rows);
    if (!fits) co_return fits.error();
    std::vector<std::string> names;
    for (const auto& m : known_) {
        if (std::any_of(rows->begin(), rows->end(), [&](const applied_row& r) { return r.version == m.version; })) continue;
        auto done = co_await apply_one(m);
        if (!done) co_return done.error();
        if (*done) names.push_back(title(m));
    }
    connection_.close();
    co_return names;
}

asio::awaitable<base::result<std::vector<migration_status>>> migrator::status() {
    auto opened = co_await open();
    if (!opened) co_return opened.error();
    auto rows = co_await read_applied();
    connection_.close();
    std::vector<applied_row> applied;
    if (rows) {
        applied = std::move(*rows);
    } else if (rows.error().sqlstate != "42P01" && rows.error().sqlstate != "3F000") {
        co_return explain(rows.error(), "the migration table cannot be read");
    }
    const auto fits = check_applied(applied);
    if (!fits) co_return fits.error();
    std::vector<migration_status> list;
    for (const auto& m : known_) {
        const auto hit = std::find_if(applied.begin(), applied.end(), [&](const applied_row& r) { return r.version == m.version; });
        list.push_back({m.version, std::string{m.name}, hit != applied.end(), hit == applied.end() ? std::string{} : hit->applied_at});
    }
    co_return list;
}

asio::awaitable<base::result<void>> migrator::check_role(std::string role) {
    auto opened = co_await open();
    if (!opened) co_return opened.error();
    params p;
    p.text(role);
    auto exists = co_await connection_.query("SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", std::move(p), short_deadline);
    if (!exists) co_return exists.error();
    if (!exists->boolean(0, 0)) co_return base::make_error(base::errc::not_found, "role " + role + " does not exist: create it first");
    co_return base::result<void>{};
}

asio::awaitable<base::result<bool>> migrator::may_apply() {
    auto opened = co_await open();
    if (!opened) co_return opened.error();
    params p;
    p.text(schema_);
    auto may = co_await connection_.query("SELECT coalesce((SELECT has_schema_privilege(n.oid, 'CREATE') FROM pg_namespace n WHERE n.nspname = $1), has_database_privilege(current_database(), 'CREATE'))",
                                          std::move(p), short_deadline);
    if (!may) co_return may.error();
    co_return may->boolean(0, 0);
}

asio::awaitable<base::result<void>> migrator::grant_writer(std::string role) {
    auto known = co_await check_role(role);
    if (!known) co_return known.error();
    const auto who = quote_identifier(role);
    const auto text = with_schema("GRANT USAGE ON SCHEMA @schema@ TO ", schema_) + who + with_schema("; GRANT INSERT ON @schema@.event TO ", schema_) + who +
                      with_schema("; GRANT SELECT (id, event_id) ON @schema@.event TO ", schema_) + who;
    auto granted = co_await connection_.script(text, short_deadline);
    connection_.close();
    if (granted) co_return base::result<void>{};
    if (granted.error().sqlstate == "42P01" || granted.error().sqlstate == "3F000") {
        co_return base::make_error(base::errc::database_schema, "schema " + schema_ + " has no outboxd tables yet: run `outboxd migrate` first");
    }
    co_return explain(granted.error(), "the rights of a writer cannot be granted");
}

std::string migrator::print() const {
    std::string all = "-- Run with psql -v ON_ERROR_STOP=1 as the role that will own the schema.\n" + with_schema("CREATE SCHEMA IF NOT EXISTS @schema@;\n", schema_) + with_schema(table_text, schema_) + ";\n";
    for (const auto& m : known_) {
        all += "\n-- Migration " + title(m) + "\n";
        if (m.in_transaction) all += "BEGIN;\n";
        all += with_schema(m.text, schema_);
        all += insert_text(m, schema_) + ";\n";
        if (m.in_transaction) all += "COMMIT;\n";
    }
    return all;
}

}  // namespace outboxd::postgres
