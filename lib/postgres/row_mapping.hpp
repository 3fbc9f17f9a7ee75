// Between values and PostgreSQL's binary forms. Floor 4 (postgres), pure: everything is copied out, so that a result can be cleared at once; a body never pins the batch it came with.
#pragma once

#include <vector>

#include "base/error.hpp"
#include "lifecycle/settlement.hpp"
#include "ports/delivery_store.hpp"
#include "postgres/params.hpp"
#include "postgres/query_result.hpp"

namespace outboxd::postgres {

[[nodiscard]] params claim_params(const ports::claim_request& request);
// Error database_schema when the columns are not the expected ones; internal when the report cannot be read.
[[nodiscard]] base::result<ports::claim_reply> read_claim(const query_result& r);

// `now` is the local clock: only how long ago an attempt started is sent, the server's clock makes the time of it.
[[nodiscard]] params settle_params(std::int64_t relay, const std::vector<lifecycle::settlement>& batch, base::boot_time now);

[[nodiscard]] params note_params(const std::vector<ports::endpoint_note>& notes);
[[nodiscard]] std::vector<ports::endpoint_row> read_endpoints(const query_result& r);
[[nodiscard]] ports::circuit_row read_circuit(const query_result& r, int row);

}  // namespace outboxd::postgres
