// endpoint test: one test event to one endpoint, on exactly the path that deliveries take; prints the phases. Nothing is written to the database.
#include <openssl/rand.h>

#include <boost/asio/co_spawn.hpp>
#include <iostream>

#include "admin/json_writer.hpp"
#include "base/encoding.hpp"
#include "base/version.hpp"
#include "commands/context.hpp"
#include "commands/output.hpp"
#include "network.hpp"
#include "relay/endpoint_directory.hpp"

namespace outboxd::daemon {
namespace {

std::string random_bytes(std::size_t n) {
    std::string bytes(n, '\0');
    if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(n)) != 1)
        throw base::failure(base::make_error(base::errc::internal, "no random bytes"));
    return bytes;
}

wire::event test_event(const std::string& endpoint, const std::string& type, base::wall_time now) {
    wire::event e;
    e.event_id = "test_" + base::hex_encode(random_bytes(12));
    e.event_type = type;
    e.created_at = now;
    e.body = "{\"test\":true,\"endpoint\":\"" + base::json_escape(endpoint) + "\",\"sent_at\":\"" + base::format_rfc3339(now) + "\"}";
    return e;
}

struct trial {
    ports::send_reply reply;
    wire::verdict verdict;
    std::string event_id;
    std::string refused;  // why no request could be built
    std::int64_t milliseconds{0};
};

boost::asio::awaitable<void> send_once(ports::https_sender& sender, std::shared_ptr<const ports::route> where, std::string head, std::string body,
                                       base::boot_time deadline, ports::send_reply& out) {
    out = co_await sender.send(where, head, body, deadline);
    sender.close();
}

trial attempt(operator_session& session, const relay::endpoint& endpoint, const std::string& type) {
    trial t;
    const auto now = std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
    const auto event = test_event(endpoint.name, type, now);
    t.event_id = event.event_id;
    wire::request request;
    if (const auto refusal = endpoint.builder->build(event, 1, std::nullopt, now, random_bytes(16), request)) {
        t.refused = refusal->text;
        return t;
    }
    auto& loop = session.loop();
    loop.restart();
    const auto sender = https::make_sender(loop, sender_options_of(session.settings()));
    const auto started = base::boot_clock::now();
    const auto deadline = started + endpoint.settings.timeout;
    std::exception_ptr thrown;
    boost::asio::co_spawn(loop, send_once(*sender, endpoint.route, request.head, std::string{request.body_view(event)}, deadline, t.reply),
                          [&](std::exception_ptr e) { thrown = e; });
    loop.run();
    if (thrown) std::rethrow_exception(thrown);
    t.milliseconds = std::chrono::duration_cast<base::milliseconds>(base::boot_clock::now() - started).count();
    if (t.reply.complete) {
        t.verdict = wire::judge(endpoint.settings.responses, {t.reply.status, t.reply.retry_after, t.reply.webhook_delivery, t.reply.location}, now);
    }
    return t;
}

bool published(const trial& t) {
    return t.reply.complete && t.verdict.meaning == wire::meaning::published;
}

std::string result_of(const trial& t) {
    if (!t.refused.empty()) return "no request can be built: " + t.refused;
    if (!t.reply.complete) return std::string{lifecycle::to_string(t.reply.error_class)} + ": " + t.reply.error;
    if (published(t)) return "published: HTTP " + std::to_string(t.reply.status);
    return t.verdict.text + (t.verdict.meaning == wire::meaning::permanent ? " (permanent: a delivery would fail)" : " (a delivery would be tried again)");
}

void print_trial(const trial& t, const ports::route& where) {
    sheet s;
    s.line("event_id", t.event_id);
    s.line("to", where.address.origin);
    s.line("result", result_of(t));
    const auto phase = [&](const char* name, int ms) { s.line(name, ms < 0 ? "-" : std::to_string(ms) + " ms"); };
    phase("dns", t.reply.phases.dns);
    phase("connect", t.reply.phases.connect);
    phase("tls", t.reply.phases.tls);
    phase("first byte", t.reply.phases.first_byte);
    s.line("total", std::to_string(t.milliseconds) + " ms");
    if (!t.reply.excerpt.empty()) s.line("answer", base::storable(t.reply.excerpt, 1024));
    s.print();
}

void print_trial_json(const trial& t, const ports::route& where, const std::string& name) {
    admin::json_writer w;
    w.begin_object()
        .member("endpoint", name)
        .member("to", where.address.origin)
        .member("event_id", t.event_id)
        .member("published", published(t))
        .member("result", result_of(t));
    if (t.reply.status > 0) w.member("http_status", t.reply.status);
    w.text_or_null("error_class", lifecycle::to_string(t.reply.error_class)).key("phases").begin_object();
    const std::pair<const char*, int> phases[] = {
        {"dns_ms", t.reply.phases.dns}, {"connect_ms", t.reply.phases.connect}, {"tls_ms", t.reply.phases.tls}, {"first_byte_ms", t.reply.phases.first_byte}};
    for (const auto& [phase, ms] : phases) {
        if (ms >= 0) w.member(phase, ms);
    }
    w.end_object().member("total_ms", t.milliseconds).text_or_null("response_excerpt", base::storable(t.reply.excerpt, 1024)).end_object();
    print_json(w.text());
}

int test(const arguments& args) {
    const auto& name = args.operands.at(0);
    operator_session session(settings_of(args));
    auto row = session.get(session.store().endpoint_for_test(name));
    if (!row.enabled || row.paused) std::cerr << "note: the endpoint is " << (row.enabled ? "paused" : "disabled") << "; the test is sent all the same\n";
    row.enabled = true;
    row.paused = false;
    relay::endpoint_directory directory(std::make_shared<const config::config>(session.settings()));
    (void)directory.adopt({row}, base::boot_clock::now());
    const auto endpoint = directory.find(name);
    if (!endpoint || !endpoint->builder || !endpoint->route) {
        throw base::failure(
            base::make_error(base::errc::invalid_input, "endpoint '" + name + "' cannot be sent to: " + (endpoint ? endpoint->reason : "unknown")));
    }
    const auto t = attempt(session, *endpoint, args.get("--type").value_or("outboxd.endpoint.test"));
    if (args.json()) {
        print_trial_json(t, *endpoint->route, name);
    } else {
        print_trial(t, *endpoint->route);
    }
    return published(t) ? exit_done : exit_failed;
}

}  // namespace

std::vector<command> endpoint_test_commands() {
    command c;
    c.name = "endpoint test";
    c.summary = "sends a test event on the very path of deliveries and prints the phases";
    c.about = "One request, signed as a delivery is; nothing is written to the database. Exit code 0: the answer would count as published.";
    c.operands = {{"NAME", "name of the endpoint"}};
    c.flags = {{"--type", "TYPE", "event type of the test (default outboxd.endpoint.test)"}};
    c.examples = {"outboxd endpoint test billing", "outboxd endpoint test billing --json"};
    c.run = test;
    return {c};
}

}  // namespace outboxd::daemon
