// Opening a connection: each host, each of its addresses, each with its own time.
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <algorithm>
#include <chrono>

#include "postgres/background.hpp"
#include "postgres/connection.hpp"
#include "postgres/connection_impl.hpp"
#include "postgres/sqlstate.hpp"

namespace outboxd::postgres {

namespace {

using steady = std::chrono::steady_clock;
constexpr base::milliseconds default_time_per_address{5000};

base::milliseconds until(steady::time_point end) {
    const auto left = std::chrono::duration_cast<base::milliseconds>(end - steady::now());
    return std::max(left, base::milliseconds{0});
}

struct keyword_list {
    std::vector<const char*> keywords;
    std::vector<const char*> values;
    void add(const char* keyword, const std::string& value) {
        if (value.empty()) return;
        keywords.push_back(keyword);
        values.push_back(value.c_str());
    }
    void end() {
        keywords.push_back(nullptr);
        values.push_back(nullptr);
    }
};

bool given(const conninfo& info, std::string_view keyword) {
    for (const auto& [k, v] : info.options) {
        if (k == keyword) return true;
    }
    return false;
}

// A peer that vanished without a word is found within a minute, not after the kernel's two hours, unless the string says otherwise.
const std::vector<std::pair<std::string, std::string>>& keepalive_defaults() {
    static const std::vector<std::pair<std::string, std::string>> options{
        {"keepalives_idle", "30"}, {"keepalives_interval", "10"}, {"keepalives_count", "3"}, {"tcp_user_timeout", "60000"}};
    return options;
}

// What libpq says of the last try: behind the last `failed: `, first line.
std::string_view last_reason(std::string_view text) {
    constexpr std::string_view mark = "failed: ";
    const auto at = text.rfind(mark);
    return at == std::string_view::npos ? text : text.substr(at + mark.size());
}

base::error refused(const conninfo& info, const database_host& host, PGconn* conn, const std::string& session_attrs) {
    const std::string whole{PQerrorMessage(conn)};
    const auto reason = last_reason(whole);
    const std::string state{find_sqlstate(reason)};
    const std::string where = "cannot connect to the database (" + info.describe(host) + "): ";
    if (!state.empty()) {
        const auto words = explain(state);
        const auto said = words.empty() ? info.scrub(reason.substr(0, reason.find('\n'))) : std::string{words};
        return base::error{classify(state), where + said + " (SQLSTATE " + state + ")", state};
    }
    const bool greeted = PQparameterStatus(conn, "server_version") != nullptr;  // the login went through, so it was target_session_attrs that refused
    if (greeted && session_attrs != "any") {
        const bool wants_writes = session_attrs == "read-write" || session_attrs == "primary";
        return base::make_error(wants_writes ? base::errc::database_read_only : base::errc::database_unreachable, where + "the server is not what target_session_attrs=" + session_attrs + " asks for");
    }
    return base::make_error(base::errc::database_unreachable, where + info.scrub(reason.substr(0, reason.find('\n'))));
}

std::vector<std::string> passes_for(const std::string& session_attrs) {
    if (session_attrs == "prefer-standby") return {"standby", "any"};  // as libpq: all hosts once for a standby, then whatever answers
    return {session_attrs};
}

// The host itself, or one entry for each address of its name.
asio::awaitable<base::result<std::vector<database_host>>> addresses_of(std::shared_ptr<connection::impl> self, database_host host, base::milliseconds deadline) {
    std::vector<database_host> found;
    if (!host.needs_lookup()) {
        found.push_back(host);
        co_return found;
    }
    auto addresses = co_await look_up(host.name, deadline, self->lookup);
    if (!addresses) co_return addresses.error();
    for (auto& a : *addresses) {
        auto one = host;
        one.address = std::move(a);
        found.push_back(std::move(one));
    }
    co_return found;
}

// Of several refusals the one that a server gave says more than a silent socket.
void keep_worse(std::optional<base::error>& kept, base::error e) {
    if (!kept || kept->sqlstate.empty() || !e.sqlstate.empty()) kept = std::move(e);
}

struct attempt_plan {
    conninfo info;
    std::string application;
    steady::time_point end;
};

asio::awaitable<base::result<void>> try_host(std::shared_ptr<connection::impl> self, const attempt_plan& plan, database_host host, std::string session_attrs, bool others) {
    const auto time_per_address = plan.info.connect_timeout.value_or(default_time_per_address);
    auto addresses = co_await addresses_of(self, host, std::min(until(plan.end), time_per_address));
    if (!addresses) co_return base::make_error(addresses.error().code, "cannot connect to the database (" + plan.info.describe(host) + "): " + addresses.error().text);
    std::optional<base::error> kept;
    for (const auto& address : *addresses) {
        const bool alone = !others && addresses->size() == 1 && !plan.info.connect_timeout;
        const auto limit = alone ? until(plan.end) : std::min(until(plan.end), time_per_address);
        auto done = co_await self->connect_once(plan.info, address, session_attrs, plan.application, limit);
        if (done) co_return base::result<void>{};
        keep_worse(kept, done.error());
        if (kept->code == base::errc::cancelled || kept->code == base::errc::database_denied || until(plan.end).count() == 0) break;
    }
    co_return std::move(*kept);
}

}  // namespace

asio::awaitable<wake> connection::impl::poll_until_connected() {
    auto next = PGRES_POLLING_WRITING;  // libpq's rule for the first turn
    for (;;) {
        attach();  // anew in each turn: libpq may have opened another socket under the same number
        const auto before = generation;
        const auto kind = next == PGRES_POLLING_WRITING ? asio::posix::stream_descriptor::wait_write : asio::posix::stream_descriptor::wait_read;
        const auto [ec] = co_await socket.async_wait(kind, asio::as_tuple(asio::use_awaitable));
        if (generation != before) co_return wake::closed;
        if (timed_out) co_return wake::timeout;
        if (ec == asio::error::operation_aborted) co_return wake::closed;
        detach();
        next = PQconnectPoll(conn);
        if (next == PGRES_POLLING_OK || next == PGRES_POLLING_FAILED) co_return wake::ready;
    }
}

asio::awaitable<base::result<void>> connection::impl::connect_once(const conninfo& info, database_host host, std::string session_attrs, std::string application, base::milliseconds deadline) {
    close();
    keyword_list list;
    for (const auto& [k, v] : info.options) list.add(k.c_str(), v);
    for (const auto& [k, v] : keepalive_defaults()) {
        if (!given(info, k)) list.add(k.c_str(), v);
    }
    if (!given(info, "fallback_application_name")) list.add("fallback_application_name", application);
    list.add("host", host.name);
    list.add("hostaddr", host.address);
    list.add("port", host.port);
    list.add("target_session_attrs", session_attrs);
    list.end();
    conn = PQconnectStartParams(list.keywords.data(), list.values.data(), 0);
    if (conn == nullptr) co_return base::make_error(base::errc::internal, "no memory for a database connection");
    PQsetErrorVerbosity(conn, PQERRORS_VERBOSE);  // the only way to learn the SQLSTATE of a refused login
    PQsetNoticeReceiver(conn, [](void* self, const PGresult* r) { static_cast<connection::impl*>(self)->note_notice(r); }, this);
    if (PQstatus(conn) != CONNECTION_BAD) {
        arm(deadline);
        const auto before = generation;
        const auto why = co_await poll_until_connected();
        if (generation != before) co_return base::make_error(base::errc::cancelled, "the wait for the database was ended");
        disarm();
        if (why == wake::timeout) {
            close();
            co_return base::make_error(base::errc::timeout, "cannot connect to the database (" + info.describe(host) + "): no answer in time");
        }
        if (why == wake::closed) co_return give_up(why);
    }
    if (PQstatus(conn) != CONNECTION_OK) {
        auto e = refused(info, host, conn, session_attrs);
        close();
        co_return e;
    }
    PQsetnonblocking(conn, 1);
    attach();
    connected = true;
    description = info.describe(host);
    co_return base::result<void>{};
}

asio::awaitable<base::result<void>> connection::open(connect_options options, base::milliseconds deadline) {
    const auto self = impl_;
    self->close();
    const auto url = current_url(options.url, options.url_file);
    if (!url) co_return url.error();
    auto info = read_conninfo(url->reveal());
    if (!info) co_return info.error();
    self->description = info->describe();
    attempt_plan plan{std::move(*info), options.purpose.empty() ? "outboxd" : "outboxd " + options.purpose, steady::now() + deadline};
    std::optional<base::error> kept;
    for (const auto& attrs : passes_for(plan.info.session_attrs)) {
        for (const auto& host : plan.info.hosts) {
            auto done = co_await try_host(self, plan, host, attrs, plan.info.hosts.size() > 1);
            if (done) co_return base::result<void>{};
            keep_worse(kept, done.error());
            if (kept->code == base::errc::cancelled || done.error().code == base::errc::database_denied) co_return std::move(*kept);
            if (until(plan.end).count() == 0) co_return std::move(*kept);
        }
    }
    co_return std::move(*kept);
}

}  // namespace outboxd::postgres
