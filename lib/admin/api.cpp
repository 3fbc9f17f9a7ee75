#include "admin/api.hpp"

#include <charconv>
#include <initializer_list>

#include "admin/api_json.hpp"
#include "base/encoding.hpp"

namespace outboxd::admin {
namespace {

constexpr std::string_view prefix = "/api/v1/";
constexpr int largest_page = 1000;

bool names_loopback(std::string_view host) {
    if (host.starts_with('[')) return host.substr(0, host.find(']') + 1) == "[::1]";
    const auto name = base::to_lower_ascii(host.substr(0, host.find(':')));
    return name == "localhost" || name == "127.0.0.1";
}

// Reads the query's parameters; the first fault is kept, and names that nobody asked for are one.
class parameters {
public:
    explicit parameters(const question& q, std::initializer_list<std::string_view> known) : query_(q.query) {
        for (const auto& [name, value] : query_) {
            bool found = false;
            for (const auto k : known) found = found || k == name;
            if (!found) fail("unknown parameter '" + base::printable(name, 50) + "'");
        }
    }
    [[nodiscard]] std::optional<std::string> text(const std::string& name) const {
        const auto found = query_.find(name);
        return found == query_.end() || found->second.empty() ? std::nullopt : std::optional{found->second};
    }
    [[nodiscard]] std::int64_t number(const std::string& name, std::int64_t otherwise, std::int64_t most) {
        const auto value = text(name);
        if (!value) return otherwise;
        std::int64_t n = 0;
        const auto [end, fault] = std::from_chars(value->data(), value->data() + value->size(), n);
        if (fault != std::errc{} || end != value->data() + value->size() || n < 0 || n > most)
            fail(name + " wants a whole number from 0 to " + std::to_string(most));
        return n;
    }
    [[nodiscard]] ports::moment moment(const std::string& name) {
        const auto value = text(name);
        if (!value) return std::nullopt;
        const auto t = base::parse_rfc3339(*value);
        if (!t) {
            fail(name + " wants a time such as 2026-11-30T08:00:00Z");
            return std::nullopt;
        }
        return *t;
    }
    [[nodiscard]] const std::string& fault() const noexcept { return fault_; }

private:
    void fail(std::string text) {
        if (fault_.empty()) fault_ = std::move(text);
    }
    const std::map<std::string, std::string>& query_;
    std::string fault_;
};

template <class T>
answer as_answer(const base::result<T>& r) {
    return r ? json_answer(to_json(*r)) : error_answer(r.error());
}

boost::asio::awaitable<answer> events(ports::operator_store& store, question q) {
    parameters p(q, {"type", "tenant", "endpoint", "status", "since", "until", "before", "limit"});
    ports::event_filter filter;
    filter.type = p.text("type");
    filter.tenant = p.text("tenant");
    filter.endpoint = p.text("endpoint");
    filter.status = p.text("status");
    filter.since = p.moment("since");
    filter.until = p.moment("until");
    filter.before = p.number("before", 0, INT64_MAX);
    filter.limit = static_cast<int>(p.number("limit", 50, largest_page));
    if (!p.fault().empty()) co_return error_answer(400, p.fault());
    const auto list = co_await store.list_events(filter);
    co_return as_answer(list);
}

boost::asio::awaitable<answer> deliveries(ports::operator_store& store, question q) {
    parameters p(q, {"endpoint", "lane", "status", "event", "after", "limit"});
    ports::delivery_filter filter;
    filter.endpoint = p.text("endpoint");
    filter.lane = p.text("lane");
    filter.status = p.text("status");
    filter.event = p.text("event");
    filter.after = p.number("after", 0, INT64_MAX);
    filter.limit = static_cast<int>(p.number("limit", 50, largest_page));
    if (!p.fault().empty()) co_return error_answer(400, p.fault());
    const auto list = co_await store.list_deliveries(filter);
    co_return as_answer(list);
}

boost::asio::awaitable<answer> one_event(ports::operator_store& store, std::string id, std::string rate) {
    const auto event = co_await store.find_event(id);
    if (!event) co_return error_answer(event.error());
    const auto view = co_await store.show_event(*event);
    if (!view) co_return error_answer(view.error());
    const auto facts = co_await store.why(*event);
    if (!facts) co_return error_answer(facts.error());
    const auto attempts = co_await store.attempts_of_event(*event, largest_page);
    if (!attempts) co_return error_answer(attempts.error());
    co_return json_answer(to_json(*view, *facts, *attempts, rate));
}

boost::asio::awaitable<answer> why(ports::operator_store& store, std::string id, std::string rate) {
    const auto event = co_await store.find_event(id);
    if (!event) co_return error_answer(event.error());
    const auto facts = co_await store.why(*event);
    if (!facts) co_return error_answer(facts.error());
    co_return json_answer(to_json(*facts, rate));
}

}  // namespace

std::optional<answer> refuse(const api_rights& rights, const question& q) {
    if (!rights.token.empty()) {
        constexpr std::string_view scheme = "Bearer ";
        const std::string_view given = q.authorization;
        if (given.size() > scheme.size() && base::iequals(given.substr(0, scheme.size()), scheme) && rights.token.equals(given.substr(scheme.size())))
            return std::nullopt;
        auto a = error_answer(401, "a bearer token is needed (admin.token)");
        a.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"outboxd\"");
        return a;
    }
    if (!rights.loopback) return error_answer(403, "set admin.token: without one the API answers on loopback addresses only");
    if (!names_loopback(q.host)) return error_answer(403, "without admin.token the API answers only to a Host that is a loopback address or localhost");
    return std::nullopt;
}

boost::asio::awaitable<answer> answer_api(ports::operator_store& store, question q, std::string default_rate_limit) {
    const std::string rest = q.path.starts_with(prefix) ? q.path.substr(prefix.size()) : std::string{};
    const auto slash = rest.find('/');
    const std::string head = rest.substr(0, slash);
    const std::string id = slash == rest.npos ? "" : rest.substr(slash + 1);
    if (head == "events" && slash == rest.npos) co_return co_await events(store, std::move(q));
    if (head == "deliveries" && slash == rest.npos) co_return co_await deliveries(store, std::move(q));
    const parameters none(q, {});
    if (!none.fault().empty()) co_return error_answer(400, none.fault());
    if (head == "events" && !id.empty()) co_return co_await one_event(store, id, default_rate_limit);
    if (head == "why" && !id.empty()) co_return co_await why(store, id, default_rate_limit);
    if (slash == rest.npos) {
        if (head == "status") {
            const auto r = co_await store.status();
            co_return as_answer(r);
        }
        if (head == "endpoints") {
            const auto r = co_await store.list_endpoints();
            co_return as_answer(r);
        }
        if (head == "circuits") {
            const auto r = co_await store.list_circuits();
            co_return as_answer(r);
        }
        if (head == "relays") {
            const auto r = co_await store.list_relays();
            co_return as_answer(r);
        }
    }
    co_return error_answer(404, "no such path; there are /api/v1/status, events, events/ID, deliveries, endpoints, circuits, relays, why/ID");
}

}  // namespace outboxd::admin
