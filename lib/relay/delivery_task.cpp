#include "relay/delivery_task.hpp"

#include <algorithm>

#include "base/encoding.hpp"
#include "base/kill_hook.hpp"

namespace outboxd::relay {

namespace {

using lifecycle::error_class;
using lifecycle::outcome;

constexpr std::size_t max_error_bytes = 500;
constexpr std::size_t max_excerpt_bytes = 1024;
// Our own faults and a proxy's use up no attempt; a short pause keeps them from turning into a loop.
constexpr auto own_fault_pause = std::chrono::seconds{5};

error_class class_of(wire::refusal_kind kind) {
    switch (kind) {
        case wire::refusal_kind::header: return error_class::header;
        case wire::refusal_kind::payload: return error_class::payload;
        case wire::refusal_kind::url: return error_class::url;
        case wire::refusal_kind::signing: return error_class::signing;
    }
    return error_class::header;
}

// Everything that can be known before a byte is sent. nullopt: go on.
std::optional<lifecycle::settlement> decide_before_sending(const held& row, const endpoint& to, base::wall_time server_now) {
    const auto& c = row.row;
    if (c.event_missing) return without_request(row.row.delivery, outcome::cancelled, error_class::local, "the event row was removed");
    if (c.expires_at && *c.expires_at <= server_now) return without_request(row.row.delivery, outcome::expired, error_class::none, "expires_at " + base::format_rfc3339(*c.expires_at) + " has passed");
    if (c.size > to.settings.max_payload) {
        return without_request(row.row.delivery, outcome::failed, error_class::payload,
                                  "the body has " + std::to_string(c.size) + " bytes; max_payload of this endpoint is " + std::to_string(to.settings.max_payload));
    }
    if (c.event.body_left_out) {
        // The limit was raised after the claim: hand it back, the next claim fetches the body.
        auto s = without_request(row.row.delivery, outcome::released, error_class::none, "");
        s.retry_in = std::chrono::seconds{1};
        return s;
    }
    return std::nullopt;
}

// Attempts used up or not: the next moment of a delivery that may be tried again.
void plan_retry(lifecycle::settlement& s, const held& row, const endpoint& to, std::optional<base::milliseconds> hint, double random) {
    if (!s.counts) {
        s.outcome = outcome::retried;
        s.retry_in = std::max<base::milliseconds>(own_fault_pause, hint.value_or(base::milliseconds{0}));
        return;
    }
    const auto pause = lifecycle::next_pause(to.settings.retry, row.row.attempts + 1, row.row.max_attempts, random);
    if (!pause) {
        s.outcome = outcome::failed;
        s.blocks = to.settings.on_failed == config::on_failed::block && row.row.ordering_key.has_value();
        if (!s.error.empty()) s.error += "; ";
        s.error += "attempts used up (" + std::to_string(row.row.attempts + 1) + ")";
        return;
    }
    s.outcome = outcome::retried;
    s.retry_in = lifecycle::with_hint(*pause, hint);
}

void judge_answer(attempt_result& result, const held& row, const endpoint& to, const ports::send_reply& reply, base::wall_time server_now, double random) {
    auto& s = result.settlement;
    wire::answer answer{reply.status, reply.retry_after, reply.webhook_delivery, reply.location};
    const wire::verdict verdict = wire::judge(to.settings.responses, answer, server_now);
    s.http_status = reply.status;
    s.response_excerpt = base::storable(reply.excerpt, max_excerpt_bytes);
    result.disable_endpoint = verdict.disable_endpoint;
    if (verdict.meaning == wire::meaning::published) {
        s.outcome = outcome::published;
        s.error = base::printable(reply.error, max_error_bytes);
        result.for_circuit = lifecycle::circuit_event::success;
        return;
    }
    s.error_class = verdict.redirect ? error_class::redirect : error_class::http;
    s.error = base::printable(verdict.text, max_error_bytes);
    result.trouble = reply.status == 429 || reply.status == 503;
    const bool fault = reply.status >= 500 || reply.status == 429;
    // An answer that refuses only this event (4xx) shows a working receiver.
    result.for_circuit = !fault ? lifecycle::circuit_event::success : verdict.neutral_for_circuit ? lifecycle::circuit_event::neutral : lifecycle::circuit_event::fault;
    if (verdict.meaning == wire::meaning::permanent) {
        s.outcome = outcome::failed;
        s.blocks = to.settings.on_failed == config::on_failed::block && row.row.ordering_key.has_value();
        return;
    }
    plan_retry(s, row, to, verdict.retry_after, random);
}

void judge_fault(attempt_result& result, const held& row, const endpoint& to, const ports::send_reply& reply, double random) {
    auto& s = result.settlement;
    s.error_class = reply.error_class;
    s.error = base::printable(reply.error, max_error_bytes);
    const bool ours = reply.own_fault || reply.error_class == error_class::proxy;
    s.counts = !ours;
    result.trouble = !ours;
    result.for_circuit = ours ? lifecycle::circuit_event::neutral : lifecycle::circuit_event::fault;
    // A direct URL whose address is denied can never work; an operator can mend an endpoint's.
    if (reply.error_class == error_class::blocked) {
        result.for_circuit = lifecycle::circuit_event::neutral;
        result.trouble = false;
        if (row.home->is_direct()) {
            s.outcome = outcome::failed;
            s.blocks = to.settings.on_failed == config::on_failed::block && row.row.ordering_key.has_value();
            return;
        }
    }
    plan_retry(s, row, to, std::nullopt, random);
}

// 16 random bytes for the schemes that sign one; it need not be secret, only unlikely to come again.
std::string nonce_for(wire::signing_scheme scheme, ports::time_source& time) {
    if (scheme != wire::signing_scheme::rfc9421 && scheme != wire::signing_scheme::adcp && scheme != wire::signing_scheme::adcp_base64) return {};
    std::string bytes(16, '\0');
    for (char& b : bytes) b = static_cast<char>(static_cast<int>(time.random() * 256.0));
    return bytes;
}

struct target {
    std::shared_ptr<const wire::request_builder> builder;
    std::shared_ptr<const ports::route> route;
};

}  // namespace

lifecycle::settlement without_request(std::int64_t delivery, outcome what, error_class why, std::string_view text) {
    lifecycle::settlement s;
    s.delivery = delivery;
    s.outcome = what;
    s.counts = false;
    s.error_class = why;
    s.error = base::printable(text, max_error_bytes);
    return s;
}

boost::asio::awaitable<attempt_result> attempt_delivery(const held& row, attempt_context context) {
    attempt_result result;
    auto& s = result.settlement;
    s.delivery = row.row.delivery;
    const endpoint_ptr to = row.home->to;  // a copy: a reload may replace the lane's
    if (!to) {
        s.outcome = outcome::released;
        s.retry_in = std::chrono::seconds{1};
        co_return result;
    }
    if (auto early = decide_before_sending(row, *to, context.server_now)) {
        s = std::move(*early);
        co_return result;
    }
    target where{to->builder, to->route};
    if (!where.builder) {
        auto direct = context.endpoints.direct_to(row.row.event.url);
        if (!direct) {
            s = without_request(row.row.delivery, outcome::failed, error_class::url, "url: " + direct.error().text);
            co_return result;
        }
        where = {direct->builder, direct->route};
    }
    wire::request request;
    const auto pinned = wire::parse_body_format(row.row.format);
    const std::string nonce = nonce_for(to->settings.signing, context.time);
    if (auto refusal = where.builder->build(row.row.event, row.row.attempts + 1, pinned, context.time.wall_now(), nonce, request)) {
        s = without_request(row.row.delivery, outcome::failed, class_of(refusal->kind), refusal->text);
        s.blocks = to->settings.on_failed == config::on_failed::block && row.row.ordering_key.has_value();
        co_return result;
    }
    if (row.row.format.empty()) s.format = std::string(wire::to_string(to->settings.format));

    const auto begun = context.time.now();
    const auto deadline = begun + to->settings.timeout;
    const std::string_view body = request.body_view(row.row.event);
    const ports::send_reply reply = co_await context.sender.send(where.route, request.head, body, deadline);
    if (reply.complete) base::kill_point(base::kill_step::after_answer);
    const auto ended = context.time.now();

    result.sent = true;
    result.reused = reply.reused;
    s.started = begun;
    s.duration_ms = static_cast<int>(std::chrono::duration_cast<base::milliseconds>(ended - begun).count());
    s.phases = reply.phases;
    const auto server_now = context.server_now + std::chrono::duration_cast<base::microseconds>(ended - begun);
    const double random = context.time.random();
    if (reply.complete) {
        judge_answer(result, row, *to, reply, server_now, random);
    } else {
        judge_fault(result, row, *to, reply, random);
    }
    co_return result;
}

}  // namespace outboxd::relay
