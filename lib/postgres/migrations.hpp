// The migrations that this binary carries. Floor 4 (postgres): texts, made at build time from migrations/NNNN_name.sql.
#pragma once

#include <span>
#include <string_view>

namespace outboxd::postgres {

struct migration {
    int version;
    std::string_view name;      // tables
    std::string_view text;      // with @schema@ in the place of the schema's name
    std::string_view checksum;  // SHA-256 of the file, hex
    bool in_transaction;        // false: its first line is `-- no-transaction`
};

// In order of version, which begins with 1 and has no gaps.
[[nodiscard]] std::span<const migration> migrations();
[[nodiscard]] int newest_migration();

}  // namespace outboxd::postgres
