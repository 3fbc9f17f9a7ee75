#include "wire/response_policy.hpp"

#include <algorithm>
#include <array>

#include "base/encoding.hpp"
#include "wire/url.hpp"

namespace outboxd::wire {

namespace {

// What an answer means when no list of the endpoint names its status. First match decides.
struct row {
    std::uint16_t low, high;
    wire::meaning meaning;
    bool redirect, disables;
};
constexpr std::array<row, 5> table{{
    {200, 299, meaning::published, false, false},
    {300, 399, meaning::retry, true, false},      // never followed: the address must be put right (B42)
    {410, 410, meaning::permanent, false, true},  // Gone: the receiver wants no more
    {400, 499, meaning::retry, false, false},     // 408, 425, 429, and the others: a wrong deployment is put right sooner than an event is written again
    {0, 999, meaning::retry, false, false},       // 5xx, and numbers that no standard knows
}};

const row& row_of(int status) {
    const auto matches = [status](const row& r) { return status >= r.low && status <= r.high; };
    const auto found = std::find_if(table.begin(), table.end(), matches);
    return found == table.end() ? table.back() : *found;
}

meaning decide(const response_rules& rules, int status) {
    if (rules.retry.contains(status)) return meaning::retry;
    if (rules.success.contains(status)) return meaning::published;
    if (rules.permanent.contains(status)) return meaning::permanent;
    // The lists replace the table's own: a 2xx or 410 that they leave out is retried like any other fault.
    return meaning::retry;
}

// Where a redirect points to, for the log: a query may hold a token, so it is left out.
std::string describe_location(std::string_view location) {
    if (location.find("://") != std::string_view::npos) return describe_url(location);
    return base::printable(location.substr(0, location.find_first_of("?#")), 200);
}

void apply_delivery_header(std::string_view value, verdict& v) {
    const auto first = value.find_first_not_of(" \t");
    if (first == std::string_view::npos) return;
    value = value.substr(first, value.find_last_not_of(" \t") - first + 1);
    const bool disable = base::iequals(value, "disable");
    if (!disable && !base::iequals(value, "abort") && !base::iequals(value, "abort-message")) return;
    v.disable_endpoint = v.disable_endpoint || disable;
    if (v.meaning == meaning::retry) v.meaning = meaning::permanent;
}

base::error bad_status(const std::string& item) {
    return base::make_error(base::errc::invalid_input, "'" + base::printable(item, 40) + "' is no status: write 2xx, 409 or 500-503");
}

// A three-digit status from 100 to 999; 0 when it is none.
std::uint16_t read_status(std::string_view text) {
    if (text.size() != 3 || text[0] == '0') return 0;
    int value = 0;
    for (const char c : text) {
        if (c < '0' || c > '9') return 0;
        value = value * 10 + (c - '0');
    }
    return static_cast<std::uint16_t>(value);
}

}  // namespace

bool status_set::contains(int status) const noexcept {
    return std::any_of(ranges.begin(), ranges.end(), [status](const auto& r) { return status >= r.first && status <= r.second; });
}

base::result<status_set> status_set::parse(const std::vector<std::string>& items) {
    status_set out;
    for (const auto& item : items) {
        const std::string_view text{item};
        if (text.size() == 3 && text[0] >= '1' && text[0] <= '9' && base::iequals(text.substr(1), "xx")) {
            const auto low = static_cast<std::uint16_t>((text[0] - '0') * 100);
            out.ranges.emplace_back(low, static_cast<std::uint16_t>(low + 99));
            continue;
        }
        const auto dash = text.find('-');
        const auto low = read_status(text.substr(0, dash));
        const auto high = dash == std::string_view::npos ? low : read_status(text.substr(dash + 1));
        if (low == 0 || high < low) return bad_status(item);
        out.ranges.emplace_back(low, high);
    }
    return out;
}

response_rules default_response_rules() {
    response_rules rules;
    for (const auto& r : table) {
        if (r.meaning == meaning::published) rules.success.ranges.emplace_back(r.low, r.high);
        if (r.meaning == meaning::permanent) rules.permanent.ranges.emplace_back(r.low, r.high);
    }
    return rules;
}

verdict judge(const response_rules& rules, const answer& a, base::wall_time now) {
    verdict v;
    v.meaning = decide(rules, a.status);
    v.disable_endpoint = v.meaning == meaning::permanent && row_of(a.status).disables;
    if (rules.honour_delivery_header) apply_delivery_header(a.webhook_delivery, v);
    if (v.meaning == meaning::published) return v;
    v.redirect = row_of(a.status).redirect;
    v.text = "HTTP " + std::to_string(a.status);
    if (v.redirect && !a.location.empty()) v.text += " to " + describe_location(a.location);
    if (v.meaning == meaning::retry && (a.status == 429 || a.status == 503)) {
        v.retry_after = parse_retry_after(a.retry_after, now);
        v.neutral_for_circuit = v.retry_after.has_value();
    }
    return v;
}

}  // namespace outboxd::wire
