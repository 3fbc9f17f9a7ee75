#include "postgres/params.hpp"

namespace outboxd::postgres {

namespace {

// PostgreSQL counts timestamps from 2000-01-01.
constexpr std::int64_t postgres_epoch_us = 946'684'800LL * 1'000'000LL;

type_oid element_type(type_oid array) noexcept {
    switch (array) {
        case type_oid::boolean_array: return type_oid::boolean;
        case type_oid::int4_array: return type_oid::int4;
        case type_oid::int8_array: return type_oid::int8;
        case type_oid::timestamptz_array: return type_oid::timestamptz;
        default: return type_oid::text;
    }
}

}  // namespace

void params::grow(std::size_t bytes) {
    if (buffer_.capacity() - buffer_.size() < bytes) buffer_.reserve((buffer_.size() + bytes) * 2);
}

void params::put32(std::uint32_t value) {
    const char bytes[4] = {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8), static_cast<char>(value)};
    buffer_.append(bytes, sizeof bytes);
}

void params::put64(std::uint64_t value) {
    put32(static_cast<std::uint32_t>(value >> 32));
    put32(static_cast<std::uint32_t>(value));
}

void params::begin(type_oid type, bool binary) { slots_.push_back(slot{type, buffer_.size(), 0, binary}); }

void params::end() { slots_.back().length = static_cast<int>(buffer_.size() - slots_.back().offset); }

params& params::null() {
    slots_.push_back(slot{type_oid::unspecified, buffer_.size(), -1, false});
    return *this;
}

params& params::text(std::optional<std::string_view> value) {
    if (!value) return null();
    begin(type_oid::unspecified, false);
    buffer_.append(*value);
    end();
    buffer_.push_back('\0');  // libpq takes the length of text-form values by strlen
    return *this;
}

params& params::typed_text(std::optional<std::string_view> value) {
    if (!value) {
        slots_.push_back(slot{type_oid::text, buffer_.size(), -1, true});
        return *this;
    }
    begin(type_oid::text, true);
    buffer_.append(*value);
    end();
    return *this;
}

params& params::int8(std::int64_t value) {
    begin(type_oid::int8, true);
    put64(static_cast<std::uint64_t>(value));
    end();
    return *this;
}

params& params::int4(std::int32_t value) {
    begin(type_oid::int4, true);
    put32(static_cast<std::uint32_t>(value));
    end();
    return *this;
}

params& params::boolean(bool value) {
    begin(type_oid::boolean, true);
    buffer_.push_back(value ? '\1' : '\0');
    end();
    return *this;
}

params& params::interval(base::milliseconds value) {
    begin(type_oid::interval, true);
    put64(static_cast<std::uint64_t>(std::int64_t{value.count()} * 1000));
    put32(0);  // days
    put32(0);  // months
    end();
    return *this;
}

params& params::jsonb(std::string_view json_text) {
    begin(type_oid::jsonb, true);
    buffer_.push_back('\1');  // version of jsonb's binary form
    buffer_.append(json_text);
    end();
    return *this;
}

params& params::begin_array(type_oid array_type, std::size_t count) {
    begin(array_type, true);
    put32(count == 0 ? 0U : 1U);  // dimensions; an empty array has none
    put32(1);                     // may hold NULL
    put32(static_cast<std::uint32_t>(element_type(array_type)));
    if (count != 0) {
        put32(static_cast<std::uint32_t>(count));
        put32(1);  // lower bound
    }
    end();
    return *this;
}

void params::element(std::int64_t value) {
    put32(8);
    put64(static_cast<std::uint64_t>(value));
    end();
}

void params::element32(std::int32_t value) {
    put32(4);
    put32(static_cast<std::uint32_t>(value));
    end();
}

void params::element(bool value) {
    put32(1);
    buffer_.push_back(value ? '\1' : '\0');
    end();
}

void params::element(std::string_view value) {
    grow(value.size() + 4);
    put32(static_cast<std::uint32_t>(value.size()));
    buffer_.append(value);
    end();
}

void params::element(base::wall_time value) {
    put32(8);
    put64(static_cast<std::uint64_t>(value.time_since_epoch().count() - postgres_epoch_us));
    end();
}

void params::element_null() {
    put32(static_cast<std::uint32_t>(-1));
    end();
}

params& params::text_array(const std::vector<std::string>& values) {
    begin_array(type_oid::text_array, values.size());
    for (const auto& v : values) element(std::string_view{v});
    return *this;
}

params& params::int8_array(const std::vector<std::int64_t>& values) {
    begin_array(type_oid::int8_array, values.size());
    for (const auto v : values) element(v);
    return *this;
}

params::wire_form params::wire() const {
    wire_form form;
    form.types.reserve(slots_.size());
    form.values.reserve(slots_.size());
    form.lengths.reserve(slots_.size());
    form.formats.reserve(slots_.size());
    for (const auto& s : slots_) {
        form.types.push_back(static_cast<std::uint32_t>(s.type));
        form.values.push_back(s.length < 0 ? nullptr : buffer_.data() + s.offset);
        form.lengths.push_back(s.length < 0 ? 0 : s.length);
        form.formats.push_back(s.binary ? 1 : 0);
    }
    return form;
}

}  // namespace outboxd::postgres
