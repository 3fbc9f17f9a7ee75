#include "admin/json_writer.hpp"

#include <cmath>
#include <cstdio>

#include "base/encoding.hpp"

namespace outboxd::admin {

void json_writer::comma() {
    if (!first_) out_ += ',';
    first_ = false;
}

json_writer& json_writer::open(char c) {
    comma();
    out_ += c;
    first_ = true;
    return *this;
}

json_writer& json_writer::close(char c) {
    out_ += c;
    first_ = false;
    return *this;
}

json_writer& json_writer::key(std::string_view name) {
    comma();
    out_ += '"';
    out_ += base::json_escape(name);
    out_ += "\":";
    first_ = true;  // its value takes no comma
    return *this;
}

json_writer& json_writer::value(std::string_view text) {
    comma();
    out_ += '"';
    out_ += base::json_escape(text);
    out_ += '"';
    return *this;
}

json_writer& json_writer::value(double number) {
    if (!std::isfinite(number)) return raw("null");
    char buffer[64];
    const int n = std::snprintf(buffer, sizeof buffer, "%.3f", number);
    std::string_view text{buffer, static_cast<std::size_t>(n)};
    while (text.ends_with('0')) text.remove_suffix(1);
    if (text.ends_with('.')) text.remove_suffix(1);
    return raw(text == "-0" ? std::string_view{"0"} : text);
}

json_writer& json_writer::raw(std::string_view json) {
    comma();
    out_ += json;
    return *this;
}

}  // namespace outboxd::admin
