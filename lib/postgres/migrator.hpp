// Brings the schema to this program's version. Floor 4 (postgres): safe when run by several at once, idempotent, forward only; refuses what it does not know.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "postgres/connection.hpp"
#include "postgres/migrations.hpp"

namespace outboxd::postgres {

struct migration_status {
    int version{0};
    std::string name;
    bool applied{false};
    std::string applied_at;  // RFC 3339; empty when not applied
};

class migrator {
public:
    // `known` in order of version: the embedded ones, but in tests.
    migrator(asio::any_io_executor executor, connect_options options, std::string schema, std::span<const migration> known = migrations());

    // Applies what is missing; gives the names of those it applied itself (another process may have applied the rest meanwhile).
    // Errors: database_schema (encoding not UTF8, newer version, changed checksum, migration failed), database_denied, database_read_only, database_busy (lock not to be had), database_unreachable.
    asio::awaitable<base::result<std::vector<std::string>>> apply();
    asio::awaitable<base::result<std::vector<migration_status>>> status();
    // Whether the role is there. Error: not_found.
    asio::awaitable<base::result<void>> check_role(std::string role);
    // Whether the connection's role may make what apply() would: the schema, or tables in one that is there.
    asio::awaitable<base::result<bool>> may_apply();
    // USAGE on the schema, INSERT on event, SELECT (id, event_id). The identity column needs no right of its own. Errors: not_found (no such role), database_schema (not migrated).
    asio::awaitable<base::result<void>> grant_writer(std::string role);
    // Everything as one text for psql, for those who let no program change a schema.
    [[nodiscard]] std::string print() const;

private:
    struct applied_row {
        int version{0};
        std::string checksum;
        std::string applied_at;
    };
    asio::awaitable<base::result<void>> open();
    asio::awaitable<base::result<void>> check_server();
    asio::awaitable<base::result<void>> begin();
    asio::awaitable<base::result<void>> create_schema();
    asio::awaitable<base::result<std::vector<applied_row>>> read_applied();
    asio::awaitable<base::result<bool>> apply_one(const migration& m);
    asio::awaitable<base::result<bool>> apply_in_transaction(const migration& m);
    asio::awaitable<base::result<bool>> apply_alone(const migration& m);
    [[nodiscard]] base::result<void> check_applied(const std::vector<applied_row>& rows) const;
    [[nodiscard]] base::error explain(base::error e, const std::string& what) const;

    connection connection_;
    connect_options options_;
    std::string schema_;
    std::span<const migration> known_;
};

}  // namespace outboxd::postgres
