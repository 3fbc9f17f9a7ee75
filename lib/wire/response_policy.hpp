// What an answer means. Floor 1, pure: one documented table, per endpoint lists override it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/time.hpp"

namespace outboxd::wire {

// Status codes and classes: `2xx`, `409`, `500-503`.
struct status_set {
    std::vector<std::pair<std::uint16_t, std::uint16_t>> ranges;
    [[nodiscard]] bool contains(int status) const noexcept;
    [[nodiscard]] static base::result<status_set> parse(const std::vector<std::string>& items);
    friend bool operator==(const status_set&, const status_set&) = default;
};

struct response_rules {
    status_set success;                  // default 2xx
    status_set permanent;                // default 410
    status_set retry;                    // default empty: named here wins over `permanent` and `success`
    bool honour_delivery_header{false};  // answer header `webhook-delivery: disable` / `abort`
    friend bool operator==(const response_rules&, const response_rules&) = default;
};
[[nodiscard]] response_rules default_response_rules();

struct answer {
    int status{0};
    std::string_view retry_after;       // field value, empty: none (several fields: the first valid)
    std::string_view webhook_delivery;  // field value
    std::string_view location;
};

enum class meaning : std::uint8_t { published, retry, permanent };
struct verdict {
    wire::meaning meaning{wire::meaning::retry};
    bool redirect{false};             // class `redirect` instead of `http`
    bool disable_endpoint{false};     // 410, or webhook-delivery: disable
    bool neutral_for_circuit{false};  // 429/503 with a valid Retry-After (429 only counts neutral with it)
    std::optional<base::milliseconds> retry_after;
    std::string text;  // `HTTP 503`, `HTTP 302 to https://...` (printable), empty for published
};
[[nodiscard]] verdict judge(const response_rules& rules, const answer& a, base::wall_time now);

// RFC 9110 10.2.3: delay-seconds or HTTP-date (IMF-fixdate, RFC 850, asctime). Signs, fractions, trailing text: nullopt. Clamped to 24 h; a past date is 0.
[[nodiscard]] std::optional<base::milliseconds> parse_retry_after(std::string_view value, base::wall_time now);

}  // namespace outboxd::wire
