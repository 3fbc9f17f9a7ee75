// The readers of values that are sections of their own: headers, rate_limit, retry.
#include <algorithm>
#include <cmath>

#include "base/encoding.hpp"
#include "config/near_match.hpp"
#include "config/reader.hpp"
#include "config/scalars.hpp"
#include "wire/headers.hpp"

namespace outboxd::config {
namespace {

using namespace std::chrono_literals;

constexpr double max_rate = 1'000'000;
constexpr int max_burst = 1'000'000;
constexpr int max_attempts_bound = 1000;
constexpr base::milliseconds max_pause = 24h * 30;

std::vector<std::string> preset_names() {
    const auto names = lifecycle::retry_preset_names();
    return {names.begin(), names.end()};
}

std::string listed(const std::vector<std::string>& words) {
    std::string out;
    for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
    return out;
}

// A schedule of another length: cut, or its last pause repeated.
void set_attempts(lifecycle::retry_policy& policy, int attempts) {
    if (!policy.schedule.empty()) {
        const base::milliseconds last = policy.schedule.back();
        policy.schedule.resize(static_cast<std::size_t>(attempts - 1), last);
    }
    policy.max_attempts = attempts;
}

}  // namespace

void reader::read_headers(const place& at, wire::header_list* to) {
    if (!at.value.is_map()) return refuse(at);
    wire::header_list headers;
    bool good = true;
    for (const auto& [name, value] : at.value.members) {
        const std::string shown = at.shown + "." + base::printable(name.text, 64);
        // Values are treated as secrets: an Authorization header is one.
        const auto text = value.is_null() ? std::nullopt : secret_at(value, shown);
        if (value.is_null()) report(value.line, shown, "must be text, not null");
        good = good && text.has_value();
        if (text) {
            resolved_[&value] = std::string(text->reveal());
            headers.emplace_back(name.text, text->reveal());
        }
    }
    for (const auto& [name, value] : headers) {
        if (const auto valid = wire::check_own_header(name, value); !valid) {
            report(at.value.line, at.shown, valid.error().text);
            good = false;
        }
    }
    if (!good) return;
    if (const auto valid = wire::check_own_headers(headers); !valid) return report(at.value.line, at.shown, valid.error().text);
    *to = std::move(headers);
}

void reader::read_rate(const place& at, std::optional<rate_limit>* to) {
    rate_limit limit;
    const node* rate = &at.value;
    if (at.value.is_map()) {
        if (!only_known(at.value, at.shown, {"rate", "burst"})) return;
        rate = member_of(at.value, "rate");
        if (const node* burst = member_of(at.value, "burst"); burst != nullptr) {
            const auto count = burst->is_scalar() && burst->plain ? parse_whole(burst->text) : std::nullopt;
            if (!count || *count < 1 || *count > max_burst) return report(burst->line, at.shown + ".burst", "must be a decimal whole number from 1 to 1000000");
            limit.burst = static_cast<int>(*count);
        }
    }
    const auto per_second = rate != nullptr && rate->is_scalar() ? parse_rate(rate->text) : std::nullopt;
    if (!per_second) return refuse(at);
    if (*per_second <= 0 || *per_second > max_rate) return refuse(at, "more than 0 and at most 1000000/s (enabled: false or paused: true stop an endpoint)");
    limit.per_second = *per_second;
    *to = limit;
}

std::optional<std::vector<base::milliseconds>> reader::schedule_at(const place& at, const node& n) {
    const std::string shown = at.shown + ".schedule";
    std::vector<base::milliseconds> schedule;
    if (!n.is_list() || n.items.size() >= static_cast<std::size_t>(max_attempts_bound)) {
        report(n.line, shown, "must be a list of durations such as [5s, 5m, 2h], one per retry; [] means one attempt");
        return std::nullopt;
    }
    for (std::size_t i = 0; i < n.items.size(); ++i) {
        const auto pause = n.items[i].is_scalar() ? base::parse_duration(n.items[i].text) : base::result<base::milliseconds>{base::error{}};
        if (!pause || *pause > max_pause) {
            report(n.items[i].line, shown, "entry " + std::to_string(i + 1) + " must be a duration such as 5s, 10m or 2h, at most 30d");
            return std::nullopt;
        }
        schedule.push_back(*pause);
    }
    return schedule;
}

void reader::read_retry(const place& at, lifecycle::retry_policy* to) {
    if (at.value.is_map()) return read_retry_section(at, to);
    const auto preset = at.value.is_scalar() ? lifecycle::retry_preset(at.value.text) : std::nullopt;
    if (preset) {
        *to = *preset;
    } else {
        const std::string near = at.value.is_scalar() ? near_match(at.value.text, preset_names()) : std::string{};
        refuse(at, "presets are " + listed(preset_names()) + suggestion(near));
    }
}

void reader::read_retry_section(const place& at, lifecycle::retry_policy* to) {
    static const std::vector<std::string> words{"preset", "schedule", "base", "factor", "max", "max_attempts", "jitter"};
    if (!only_known(at.value, at.shown, words)) return;
    const std::size_t before = problems_.size();
    lifecycle::retry_policy policy = *to;
    const auto wrong = [&](const node& n, std::string_view word, const std::string& text) { report(n.line, at.shown + "." + std::string(word), text); };
    const auto duration = [&](const node& n, std::string_view word, base::milliseconds low) {
        const auto value = n.is_scalar() ? base::parse_duration(n.text) : base::result<base::milliseconds>{base::error{}};
        if (value && *value >= low && *value <= max_pause) return *value;
        wrong(n, word, "must be a duration such as 250ms, 5s, 10m or 2h, from " + base::format_duration(low) + " to 30d");
        return low;
    };
    const auto decimal = [&](const node& n, std::string_view word, double low, double high) {
        const auto value = n.is_scalar() && n.plain ? parse_decimal(n.text) : std::nullopt;
        if (value && *value >= low && *value <= high) return *value;
        wrong(n, word, "must be a decimal number from " + std::to_string(static_cast<int>(low)) + " to " + std::to_string(static_cast<int>(high)));
        return low;
    };

    if (const node* n = member_of(at.value, "preset")) {
        const auto preset = n->is_scalar() ? lifecycle::retry_preset(n->text) : std::nullopt;
        if (preset) policy = *preset;
        else wrong(*n, "preset", "must be one of " + listed(preset_names()) + suggestion(n->is_scalar() ? near_match(n->text, preset_names()) : std::string{}));
    }
    const node* const schedule = member_of(at.value, "schedule");
    const node* const first = member_of(at.value, "base");
    const node* const factor = member_of(at.value, "factor");
    const node* const max = member_of(at.value, "max");
    if (schedule != nullptr && (first != nullptr || factor != nullptr || max != nullptr)) {
        report(at.value.line, at.shown, "schedule cannot stand beside base, factor or max: a list of pauses, or pauses that grow");
        return;
    }
    if (schedule != nullptr) {
        if (auto pauses = schedule_at(at, *schedule)) {
            policy = {.schedule = std::move(*pauses), .first = 0ms, .factor = 2.0, .max = 0ms, .max_attempts = 1, .jitter = policy.jitter};
            policy.max_attempts = static_cast<int>(policy.schedule.size()) + 1;
        }
    }
    if (first != nullptr) {
        // Pauses that grow take the place of an inherited schedule; the number of attempts stays.
        policy.schedule.clear();
        policy.first = duration(*first, "base", 1ms);
        if (policy.max < policy.first) policy.max = max_pause;
    } else if ((factor != nullptr || max != nullptr) && policy.first <= 0ms) {
        report(at.value.line, at.shown, "factor and max need base: { base: 10s, factor: 2, max: 1h, max_attempts: 8 }");
    }
    if (factor != nullptr) policy.factor = decimal(*factor, "factor", 1, 100);
    if (max != nullptr) {
        policy.max = duration(*max, "max", 1ms);
        if (policy.max < policy.first) wrong(*max, "max", "must not be less than base");
    }
    if (const node* n = member_of(at.value, "jitter")) policy.jitter = decimal(*n, "jitter", 0, 1);
    if (const node* n = member_of(at.value, "max_attempts")) {
        const auto count = n->is_scalar() && n->plain ? parse_whole(n->text) : std::nullopt;
        if (count && *count > 1 && policy.schedule.empty() && policy.first <= 0ms) wrong(*n, "max_attempts", "needs a schedule or base for the pauses");
        else if (count && *count >= 1 && *count <= max_attempts_bound) set_attempts(policy, static_cast<int>(*count));
        else wrong(*n, "max_attempts", "must be a decimal whole number from 1 to 1000");
    }
    if (problems_.size() == before) *to = std::move(policy);
}

}  // namespace outboxd::config
