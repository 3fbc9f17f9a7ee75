// Rows of the operator's statements as values of the port. Floor 4 (postgres), internal: column order is that of operator_statements.cpp.
#pragma once

#include "ports/operator_store.hpp"
#include "postgres/params.hpp"
#include "postgres/query_result.hpp"

namespace outboxd::postgres {

[[nodiscard]] ports::moment moment_at(const query_result& r, int row, int column);
// Counts of the statements end one above their limit; shown is the limit and that there may be more.
[[nodiscard]] ports::bounded_count count_at(const query_result& r, int row, int column, std::int64_t limit);
[[nodiscard]] ports::relay_view relay_from(const query_result& r, int row);
[[nodiscard]] ports::circuit_view circuit_from(const query_result& r, int row);
[[nodiscard]] ports::delivery_facts facts_from(const query_result& r, int row);
[[nodiscard]] ports::event_view event_from(const query_result& r, int row);
[[nodiscard]] ports::delivery_view delivery_from(const query_result& r, int row);
[[nodiscard]] ports::attempt_view attempt_from(const query_result& r, int row);
[[nodiscard]] ports::endpoint_view endpoint_from(const query_result& r, int row);
[[nodiscard]] std::vector<std::string> string_list(std::string_view json_array);

// Microseconds since 1970, or SQL NULL.
void put_moment(params& p, const ports::moment& t);
[[nodiscard]] base::error not_found(std::string text);

template <class T, class F>
std::vector<T> all_rows(const query_result& r, F from) {
    std::vector<T> list;
    list.reserve(static_cast<std::size_t>(r.rows()));
    for (int row = 0; row < r.rows(); ++row) list.push_back(from(r, row));
    return list;
}

}  // namespace outboxd::postgres
