#include "postgres/query_result.hpp"

#include <libpq-fe.h>

#include <bit>
#include <charconv>
#include <cstdlib>
#include <limits>

#include "postgres/params.hpp"

namespace outboxd::postgres {

namespace {

constexpr std::int64_t epoch_us = 946'684'800LL * 1'000'000LL;

// A big-endian integer of 1..8 bytes with its sign.
std::int64_t big_endian(std::string_view bytes) noexcept {
    if (bytes.empty() || bytes.size() > 8) return 0;
    std::uint64_t value = (static_cast<unsigned char>(bytes[0]) & 0x80U) != 0 ? ~std::uint64_t{0} : 0;
    for (const char c : bytes) value = (value << 8) | static_cast<unsigned char>(c);
    return static_cast<std::int64_t>(value);
}

}  // namespace

void result_deleter::operator()(pg_result* r) const noexcept { PQclear(r); }

query_result::query_result(result_ptr r) noexcept : result_(std::move(r)) {
    if (result_) {
        rows_ = PQntuples(result_.get());
        columns_ = PQnfields(result_.get());
    }
}

std::int64_t query_result::affected() const noexcept {
    if (!result_) return 0;
    const std::string_view text{PQcmdTuples(result_.get())};
    std::int64_t n = 0;
    std::from_chars(text.data(), text.data() + text.size(), n);
    return n;
}

std::string_view query_result::column_name(int column) const noexcept {
    const char* name = result_ ? PQfname(result_.get(), column) : nullptr;
    return name == nullptr ? std::string_view{} : std::string_view{name};
}

bool query_result::is_null(int row, int column) const noexcept {
    return row < 0 || row >= rows_ || column < 0 || column >= columns_ || PQgetisnull(result_.get(), row, column) == 1;
}

std::string_view query_result::text(int row, int column) const noexcept {
    if (is_null(row, column)) return {};
    std::string_view bytes{PQgetvalue(result_.get(), row, column), static_cast<std::size_t>(PQgetlength(result_.get(), row, column))};
    const bool versioned = PQfformat(result_.get(), column) == 1 && PQftype(result_.get(), column) == static_cast<Oid>(type_oid::jsonb);
    if (versioned && !bytes.empty()) bytes.remove_prefix(1);
    return bytes;
}

std::optional<std::string> query_result::optional_string(int row, int column) const {
    if (is_null(row, column)) return std::nullopt;
    return std::string{text(row, column)};
}

std::int64_t query_result::integer(int row, int column) const noexcept {
    const auto bytes = text(row, column);
    if (bytes.empty()) return 0;
    if (PQfformat(result_.get(), column) == 1) return big_endian(bytes);
    std::int64_t value = 0;
    std::from_chars(bytes.data(), bytes.data() + bytes.size(), value);
    return value;
}

std::optional<std::int64_t> query_result::optional_integer(int row, int column) const noexcept {
    if (is_null(row, column)) return std::nullopt;
    return integer(row, column);
}

double query_result::real(int row, int column) const noexcept {
    const auto bytes = text(row, column);
    if (bytes.empty()) return 0;
    if (PQfformat(result_.get(), column) == 1) {
        if (bytes.size() == 8) return std::bit_cast<double>(big_endian(bytes));
        if (bytes.size() == 4) return static_cast<double>(std::bit_cast<float>(static_cast<std::int32_t>(big_endian(bytes))));
        return 0;
    }
    double value = 0;
    std::from_chars(bytes.data(), bytes.data() + bytes.size(), value);
    return value;
}

bool query_result::boolean(int row, int column) const noexcept {
    const auto bytes = text(row, column);
    if (bytes.empty()) return false;
    return PQfformat(result_.get(), column) == 1 ? bytes[0] != '\0' : bytes[0] == 't';
}

base::wall_time query_result::time(int row, int column) const noexcept {
    const auto us = integer(row, column);
    // PostgreSQL's infinities are the ends of the range; so is everything that no longer fits after the shift of the epoch.
    if (us >= std::numeric_limits<std::int64_t>::max() - epoch_us) return base::wall_time::max();
    if (us == std::numeric_limits<std::int64_t>::min()) return base::wall_time::min();
    return base::wall_time{base::microseconds{us + epoch_us}};
}

}  // namespace outboxd::postgres
