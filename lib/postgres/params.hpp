// The parameters of one statement in libpq's shape: one buffer, offsets, formats. Floor 4 (postgres): values in, bytes out; no connection, no libpq header.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/kill_hook.hpp"
#include "base/time.hpp"

namespace outboxd::postgres {

// Type numbers of pg_type that never change between servers.
enum class type_oid : std::uint32_t {
    unspecified = 0,
    boolean = 16,
    bytea = 17,
    int8 = 20,
    int2 = 21,
    int4 = 23,
    text = 25,
    json = 114,
    boolean_array = 1000,
    int4_array = 1007,
    text_array = 1009,
    int8_array = 1016,
    timestamptz = 1184,
    timestamptz_array = 1185,
    interval = 1186,
    jsonb = 3802,
};

// Parameters in the order of $1, $2, ... Text ones go without a type, so the server takes the type from the context (a cast, a column, an operator); the others are binary and typed,
// so that a function is found by its exact signature. Values are copied. A text value must be valid UTF-8 without NUL: a value with NUL is cut there by the protocol's text form.
class params {
public:
    params& null();                                          // untyped
    params& text(std::optional<std::string_view> value);        // untyped text form; nullopt: SQL NULL
    params& typed_text(std::optional<std::string_view> value);  // type text, binary form
    params& int8(std::int64_t value);
    params& int4(std::int32_t value);
    params& boolean(bool value);
    params& interval(base::milliseconds value);
    params& jsonb(std::string_view json_text);

    // One-dimensional arrays: begin_array(type, count), then exactly `count` elements.
    params& begin_array(type_oid array_type, std::size_t count);
    void element(std::int64_t value);        // int8[]
    void element32(std::int32_t value);      // int4[]
    void element(bool value);                // bool[]
    void element(std::string_view value);    // text[]
    void element(base::wall_time value);     // timestamptz[]
    void element_null();
    // The usual ones in one call.
    params& text_array(const std::vector<std::string>& values);
    params& int8_array(const std::vector<std::int64_t>& values);

    // The step that a crash test may name for the moment between the statement and its reply.
    params& step(base::kill_step when_sent) noexcept {
        step_ = when_sent;
        return *this;
    }
    [[nodiscard]] base::kill_step step() const noexcept { return step_; }

    [[nodiscard]] int count() const noexcept { return static_cast<int>(slots_.size()); }

    // What PQsendQueryParams takes; pointers stay valid until the next change of this object.
    struct wire_form {
        std::vector<std::uint32_t> types;
        std::vector<const char*> values;
        std::vector<int> lengths;
        std::vector<int> formats;
    };
    [[nodiscard]] wire_form wire() const;

private:
    struct slot {
        type_oid type;
        std::size_t offset;
        int length;  // -1: SQL NULL
        bool binary;
    };
    void begin(type_oid type, bool binary);
    void end();
    void put32(std::uint32_t value);
    void put64(std::uint64_t value);
    void grow(std::size_t bytes);

    std::string buffer_;
    std::vector<slot> slots_;
    base::kill_step step_{base::kill_step::none};
};

}  // namespace outboxd::postgres
