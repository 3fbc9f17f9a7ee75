// Fuzzes what reads a receiver's answer: any bytes, in any pieces, must end in a state and stay within the limits.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "https/answer_reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using outboxd::https::answer_reader;
    if (size < 2) return 0;
    const std::size_t piece = 1 + data[0];
    const bool clean_end = (data[1] & 1) != 0;
    std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
    answer_reader reader;
    reader.expect((data[1] & 2) == 0);
    auto state = answer_reader::state::reading;
    while (!bytes.empty() && state == answer_reader::state::reading) {
        const auto now = bytes.substr(0, piece);
        bytes.remove_prefix(now.size());
        state = reader.feed(now);
    }
    if (state == answer_reader::state::reading) state = reader.feed_end(clean_end);
    if (state == answer_reader::state::reading) std::abort();
    if (state == answer_reader::state::complete && !reader.header_complete()) std::abort();
    if (reader.content().excerpt.size() > answer_reader::excerpt_limit) std::abort();
    if (reader.header_complete() && (reader.content().status < 100 || reader.content().status > 999)) std::abort();
    return 0;
}
