// Role: libFuzzer target of the configuration: any bytes as a file, as a settings object and as the value of `endpoint set`.
// Promise: reads no environment; an answer is either a configuration or problems, never a crash, a hang or a repeated secret.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "config/load.hpp"
#include "config/settings.hpp"

namespace {

using namespace outboxd;

void must(bool holds) {
    if (!holds) std::abort();
}

void read_as_file(std::string_view text) {
    const auto none = [](const std::string&) -> std::optional<std::string> { return std::nullopt; };
    const auto result = config::load_text(text, "fuzz.yaml", none);
    bool refused = false;
    for (const auto& problem : result.problems) {
        refused = refused || !problem.warning;
        must(!problem.text.empty());
        must(problem.to_string().find("whsec_hunter2") == std::string::npos);
    }
    must(refused == !result.value.has_value());
    if (!result.value) return;
    // What the file says about an endpoint must be what the database will say about it.
    for (const auto& endpoint : result.value->endpoints) must(config::apply_settings(result.value->defaults, endpoint.settings_json).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text{reinterpret_cast<const char*>(data), size};
    read_as_file(text);
    static const auto defaults = config::built_in_settings();
    static_cast<void>(config::apply_settings(defaults, text));
    static_cast<void>(config::redact_settings(text));
    static_cast<void>(config::merge_setting("{\"timeout\":\"5s\"}", "retry", text));
    return 0;
}
