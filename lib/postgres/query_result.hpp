// The rows of one statement. Floor 4 (postgres): owns libpq's result; every getter copies or views, none throws on a value of the expected type.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.hpp"

struct pg_result;  // libpq's PGresult

namespace outboxd::postgres {

struct result_deleter {
    void operator()(pg_result* r) const noexcept;
};
using result_ptr = std::unique_ptr<pg_result, result_deleter>;

enum class result_format : int { text = 0, binary = 1 };

// Row and column count from 0. A getter works in both formats; the column's SQL type must fit it. NULL reads as an empty text, 0 or false: ask is_null() or use the optional getters.
class query_result {
public:
    query_result() = default;
    explicit query_result(result_ptr r) noexcept;

    [[nodiscard]] int rows() const noexcept { return rows_; }
    [[nodiscard]] int columns() const noexcept { return columns_; }
    [[nodiscard]] std::int64_t affected() const noexcept;  // rows that an INSERT, UPDATE or DELETE touched
    [[nodiscard]] std::string_view column_name(int column) const noexcept;

    [[nodiscard]] bool is_null(int row, int column) const noexcept;
    // The bytes as they came; valid while this object lives. In text format: the value's text, whatever its type. In binary format: text, json and bytea as they are (jsonb without its version byte).
    [[nodiscard]] std::string_view text(int row, int column) const noexcept;
    [[nodiscard]] std::string string(int row, int column) const { return std::string{text(row, column)}; }
    [[nodiscard]] std::optional<std::string> optional_string(int row, int column) const;
    [[nodiscard]] std::int64_t integer(int row, int column) const noexcept;  // int2, int4, int8
    [[nodiscard]] std::optional<std::int64_t> optional_integer(int row, int column) const noexcept;
    [[nodiscard]] double real(int row, int column) const noexcept;           // float4, float8 (numeric in text format only)
    [[nodiscard]] bool boolean(int row, int column) const noexcept;
    // timestamptz, binary format only: use extract(epoch ...) or text otherwise. infinity reads as wall_time::max(), -infinity as wall_time::min().
    [[nodiscard]] base::wall_time time(int row, int column) const noexcept;

    [[nodiscard]] const pg_result* raw() const noexcept { return result_.get(); }

private:
    result_ptr result_;
    int rows_{0};
    int columns_{0};
};

}  // namespace outboxd::postgres
