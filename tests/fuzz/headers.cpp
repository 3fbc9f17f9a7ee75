// Fuzzes what others put into a head: event headers (JSON), content type, trace fields, signature fields. Whatever is accepted must not be able to forge a
// line.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/encoding.hpp"
#include "wire/headers.hpp"
#include "wire/request.hpp"
#include "wire/signature/content_digest.hpp"
#include "wire/signature/signature_input_field.hpp"

using namespace outboxd;
using namespace outboxd::wire;

static void require(bool holds) {
    if (!holds) std::abort();
}

static bool one_line(std::string_view text) {
    return text.find_first_of(std::string_view{"\r\n\0", 3}) == std::string_view::npos;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (const auto headers = parse_event_headers(text)) {
        for (const auto& [name, value] : *headers) require(is_token(name) && one_line(value));
    }
    if (check_content_type(text)) require(one_line(text));
    if (check_traceparent(text)) require(one_line(text));
    if (check_tracestate(text)) require(one_line(text));
    require(base::is_valid_utf8(base::printable(text, 200)) && base::printable(text, 200).size() <= 200 && one_line(base::printable(text, 200)));
    require(base::is_valid_utf8(base::storable(text, 200)) && base::is_valid_utf8(base::json_escape(text)));
    if (const auto bytes = base::base64_decode(text)) require(base::base64_decode(base::base64_encode(*bytes)).value() == *bytes);
    (void)read_signature_input(text);
    (void)read_signature(text, "sig1");
    (void)content_digest_matches(text, "body");

    // The same bytes in every free field of an event: either refused, or exactly as many lines as it should have.
    static const request_builder builder(parse_url("https://h.example/").value(), {}, "outboxd");
    event e;
    e.event_id = "id";
    e.event_type = std::string(text);
    e.content_type = std::string(text.substr(0, size / 2));
    e.subject = std::string(text);
    e.tenant_id = std::string(text);
    request out;
    if (!builder.build(e, 1, body_format::cloudevents_binary, {}, {}, out)) {
        std::size_t lines = 0;
        for (std::size_t at = out.head.find("\r\n"); at != std::string::npos; at = out.head.find("\r\n", at + 2)) ++lines;
        require(lines == 20);
    }
    return 0;
}
