// Builds one JSON document (RFC 8259) in memory, commas kept by itself. Floor 4 (admin), pure. Text is made valid UTF-8 by the escaper's caller: values come
// from a UTF8 database.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.hpp"

namespace outboxd::admin {

class json_writer {
public:
    json_writer& begin_object() { return open('{'); }
    json_writer& end_object() { return close('}'); }
    json_writer& begin_array() { return open('['); }
    json_writer& end_array() { return close(']'); }
    json_writer& key(std::string_view name);

    json_writer& value(std::string_view text);
    json_writer& value(const char* text) { return value(std::string_view{text}); }
    json_writer& value(const std::string& text) { return value(std::string_view{text}); }
    template <std::same_as<bool> T>
    json_writer& value(T yes) {
        return raw(yes ? "true" : "false");
    }
    template <std::integral T>
    requires(!std::same_as<T, bool>) json_writer& value(T number) { return raw(std::to_string(number)); }
    json_writer& value(double number);  // three decimals at most; not finite: null
    json_writer& value(base::wall_time t) { return value(base::format_rfc3339(t)); }
    template <class T>
    json_writer& value(const std::optional<T>& maybe) {
        return maybe ? value(*maybe) : raw("null");
    }
    // Text that is JSON already.
    json_writer& raw(std::string_view json);
    template <class T>
    json_writer& member(std::string_view name, const T& v) {
        return key(name).value(v);
    }
    // Empty text is written as null: no value and an empty one are the same here.
    json_writer& text_or_null(std::string_view name, std::string_view text) { return text.empty() ? key(name).raw("null") : key(name).value(text); }

    [[nodiscard]] const std::string& text() const noexcept { return out_; }
    [[nodiscard]] std::string take() { return std::move(out_); }

private:
    json_writer& open(char c);
    json_writer& close(char c);
    void comma();
    std::string out_;
    bool first_{true};
};

}  // namespace outboxd::admin
