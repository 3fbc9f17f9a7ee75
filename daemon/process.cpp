#include "process.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>

#include "base/kill_hook.hpp"
#include "base/version.hpp"
#include "postgres/endpoint_sync.hpp"
#include "postgres/migrator.hpp"
#include "telemetry/log.hpp"

namespace outboxd::daemon {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto status_interval = seconds{5};
// Descriptors that are not connections to receivers: sessions, admin, log, resolver, libraries.
constexpr int other_descriptors = 128;

std::string host_name() {
    char name[256] = {};
    if (gethostname(name, sizeof name - 1) != 0) return "unknown";
    return name;
}

// As many open files as the system allows us; fewer slots on the wire where that is not enough.
shared_config fit_descriptors(shared_config settings) {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return settings;
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 1 << 20);
        (void)setrlimit(RLIMIT_NOFILE, &limit);
        (void)getrlimit(RLIMIT_NOFILE, &limit);
    }
    const auto usable = static_cast<std::int64_t>(std::min<rlim_t>(limit.rlim_cur, 1 << 20)) - other_descriptors;
    if (usable >= settings->relay.max_in_flight) return settings;
    auto smaller = std::make_shared<config::config>(*settings);
    smaller->relay.max_in_flight = static_cast<int>(std::max<std::int64_t>(4, usable));
    telemetry::log(telemetry::level::warn, "few_descriptors", "the limit of open files is too low for relay.max_in_flight; raise it (LimitNOFILE=, ulimit -n)",
                   {{"open_files", static_cast<std::int64_t>(limit.rlim_cur)}, {"max_in_flight", static_cast<std::int64_t>(smaller->relay.max_in_flight)}});
    return smaller;
}

https::sender_options sender_options(const config::config& settings) {
    https::sender_options options;
    options.policy = settings.egress.policy;
    options.allow_http = settings.egress.policy.allow_http;
    options.no_proxy = settings.egress.no_proxy;
    options.idle_per_route = static_cast<std::size_t>(settings.relay.max_in_flight);
    options.idle_in_all = static_cast<std::size_t>(settings.relay.max_in_flight);
    return options;
}

std::string status_line(const relay::view& v) {
    if (!v.ready) return "waiting: " + v.reason;
    return "delivering: " + std::to_string(v.in_flight) + " in flight, " + std::to_string(v.counts.due) + " due, oldest " +
           std::to_string(static_cast<std::int64_t>(v.counts.oldest_due_seconds)) + " s";
}

}  // namespace

process::process(shared_config settings, std::function<shared_config()> reread)
    : settings_(fit_descriptors(std::move(settings))),
      reread_(std::move(reread)),
      time_(context_.get_executor()),
      metrics_(base::version()),
      group_(context_.get_executor(), time_),
      stop_signals_(context_),
      reload_signal_(context_),
      watchdog_alarm_(time_.make_alarm()),
      status_alarm_(time_.make_alarm()) {
    std::signal(SIGPIPE, SIG_IGN);
    if (const auto armed = base::armed_kill_hook(); !armed.empty()) {
        telemetry::log(telemetry::level::warn, "kill_hook", "OUTBOXD_KILL_AT is set: this process ends itself with SIGKILL at that step", {{"step", std::string_view{armed}}});
    }
    const auto executor = context_.get_executor();
    store_ = std::make_unique<postgres::pg_delivery_store>(executor, connect_options({}), settings_->database.schema);
    sender_ = https::make_sender(context_, sender_options(*settings_));
    if (reread_ && settings_->relay.notify) {
        auto listen = connect_options("listen");
        if (!settings_->database.listen_url.empty()) {
            listen.url = settings_->database.listen_url;
            listen.url_file.clear();
        }
        wakeup_ = std::make_unique<postgres::notify_listener>(executor, std::move(listen), settings_->database.schema, [this](std::string payload) { return store_->probe_wakeup(std::move(payload)); });
    }
    relay_ = std::make_unique<relay::relay>(relay::parts{executor, settings_, *store_, wakeup_.get(), *sender_, time_, metrics_,
                                                         ports::relay_identity{host_name() + ":" + std::to_string(getpid()), host_name(), static_cast<int>(getpid()), std::string(base::version())},
                                                         [this] { return before_ready(); }});
    group_.on_failure([](std::string_view what) { telemetry::log(telemetry::level::error, "invariant_broken", what); });
}

process::~process() = default;

postgres::connect_options process::connect_options(std::string purpose) const {
    postgres::connect_options options;
    options.url = settings_->database.url;
    options.url_file = settings_->database.url_file;
    options.purpose = std::move(purpose);
    return options;
}

// Until the file's endpoints are in the table, the fan-out would be wrong: claims wait for it.
asio::awaitable<base::result<void>> process::before_ready() {
    if (synced_) co_return base::result<void>{};
    auto done = co_await postgres::sync_endpoints(context_.get_executor(), connect_options("endpoints"), settings_->database.schema, settings_);
    if (!done) co_return done.error();
    synced_ = true;
    if (!done->added.empty() || !done->changed.empty() || !done->taken_over.empty() || !done->removed.empty()) {
        telemetry::log(telemetry::level::info, "endpoints_synced", "the endpoints of the file are in the table",
                       {{"added", static_cast<std::int64_t>(done->added.size())},
                        {"changed", static_cast<std::int64_t>(done->changed.size())},
                        {"taken_over", static_cast<std::int64_t>(done->taken_over.size())},
                        {"removed", static_cast<std::int64_t>(done->removed.size())}});
    }
    co_return base::result<void>{};
}

asio::awaitable<void> process::supervise() {
    if (settings_->relay.auto_migrate) {
        bool migrated = false;
        while (!migrated && signals_ == 0) {
            postgres::migrator steps(context_.get_executor(), connect_options("migrate"), settings_->database.schema);
            auto done = co_await steps.apply();
            migrated = static_cast<bool>(done);
            if (migrated) break;
            telemetry::log_limited(telemetry::level::warn, "migrate_failed", "", done.error().text);
            co_await status_alarm_->wait(time_.now() + seconds{1});
        }
    }
    in_order_ = co_await relay_->run();
    wind_up();
}

void process::wind_up() {
    ended_ = true;
    if (admin_) admin_->stop();
    if (operator_store_) operator_store_->close();
    if (wakeup_) wakeup_->stop();
    stop_signals_.cancel();
    reload_signal_.cancel();
    watchdog_alarm_->ring();
    status_alarm_->ring();
}

bool process::run() {
    stop_signals_.add(SIGTERM);
    stop_signals_.add(SIGINT);
    reload_signal_.add(SIGHUP);
    if (!settings_->admin.listen.empty()) {
        operator_store_ = std::make_unique<postgres::pg_operator_store>(
            context_.get_executor(), postgres::operator_store_options{.connect = connect_options("admin"), .schema = settings_->database.schema, .deadline = seconds{5}});
        admin::options how;
        how.listen = settings_->admin.listen;
        how.token = settings_->admin.token;
        admin::handlers what;
        what.state = [this] { return state(); };
        what.metrics = [this] { return metrics_text(); };
        what.store = operator_store_.get();
        what.default_rate_limit = [this] { return settings_->defaults.rate ? std::to_string(static_cast<std::int64_t>(settings_->defaults.rate->per_second)) + "/s" : std::string{}; };
        admin_ = admin::make_listener(context_, how, what);
        telemetry::log(telemetry::level::info, "admin_listening", settings_->admin.listen, {{"port", static_cast<std::int64_t>(admin_->port())}});
    }
    telemetry::log(telemetry::level::info, "starting", "outboxd " + std::string(base::version()), {{"pid", static_cast<std::int64_t>(getpid())}});
    relay_->on_ready([this] { systemd_.ready(status_line(relay_->look())); });
    systemd_.status("starting: waiting for the database");
    if (wakeup_) group_.spawn(wakeup_->run());
    group_.spawn(supervise());
    group_.spawn(watch_stop_signals());
    group_.spawn(watch_reload_signal());
    if (systemd_.watchdog_interval()) group_.spawn(feed_watchdog());
    group_.spawn(report_status());
    context_.run();
    telemetry::log(telemetry::level::info, "stopped", signals_ > 1 ? "stopped at the second signal" : "stopped in order");
    telemetry::flush_log();
    return in_order_ && signals_ <= 1;
}

drain_result process::drain(int max_passes, base::milliseconds timeout) {
    drain_result result;
    stop_signals_.add(SIGTERM);
    stop_signals_.add(SIGINT);
    group_.spawn(watch_stop_signals());
    group_.spawn(run_drain(max_passes, timeout, result));
    context_.run();
    telemetry::flush_log();
    return result;
}

asio::awaitable<void> process::run_drain(int max_passes, base::milliseconds timeout, drain_result& result) {
    result.tally = co_await relay_->drain(max_passes, timeout);
    if (!result.tally.database_answered) {
        const auto v = relay_->look();
        result.reason = v.reason;
        auto why = co_await postgres::count_drain_remainder(context_.get_executor(), connect_options("drain"), settings_->database.schema);
        result.schema_fault = static_cast<bool>(why) || (why.error().code != base::errc::database_unreachable && why.error().code != base::errc::timeout);
        if (!why) result.reason = why.error().text;
    } else {
        auto left = co_await postgres::count_drain_remainder(context_.get_executor(), connect_options("drain"), settings_->database.schema);
        if (left) {
            result.left = *left;
        } else {
            result.reason = left.error().text;
        }
    }
    wind_up();
}

asio::awaitable<void> process::watch_stop_signals() {
    while (!ended_) {
        auto [error, signal] = co_await stop_signals_.async_wait(asio::as_tuple(asio::use_awaitable));
        if (error) co_return;
        ++signals_;
        if (signals_ == 1) {
            telemetry::log(telemetry::level::info, "signal", signal == SIGINT ? "SIGINT: stopping in order" : "SIGTERM: stopping in order");
            systemd_.stopping();
            relay_->stop();
            status_alarm_->ring();
        } else {
            telemetry::log(telemetry::level::warn, "signal", "a second signal: cutting what is on the wire");
            relay_->abort();
        }
    }
}

asio::awaitable<void> process::watch_reload_signal() {
    while (!ended_) {
        auto [error, signal] = co_await reload_signal_.async_wait(asio::as_tuple(asio::use_awaitable));
        if (error) co_return;
        systemd_.reloading();
        if (reload()) {
            auto synced = co_await before_ready();
            if (!synced) telemetry::log(telemetry::level::warn, "endpoints_not_synced", synced.error().text);
            relay_->reload(settings_);
            telemetry::log(telemetry::level::info, "reloaded", "the configuration was read again", {{"file", std::string_view{settings_->path}}});
        }
        systemd_.ready(status_line(relay_->look()));
    }
}

// What cannot change while running keeps its old value and is said so; everything else holds from now on.
bool process::reload() {
    auto fresh = reread_();
    if (!fresh) {
        telemetry::log(telemetry::level::error, "reload_refused", "the configuration has errors; nothing was changed");
        return false;
    }
    fresh = fit_descriptors(std::move(fresh));
    std::string fixed;
    const auto changed = [&fixed](bool yes, std::string_view key) {
        if (yes) fixed += (fixed.empty() ? "" : ", ") + std::string{key};
    };
    // An address in a file is read again at every reconnect and may change; another database under a running relay may not.
    const auto& was = settings_->database;
    changed(fresh->database.url_file != was.url_file || (was.url_file.empty() && fresh->database.url.reveal() != was.url.reveal()), "database.url");
    changed(fresh->database.listen_url.reveal() != was.listen_url.reveal(), "database.listen_url");
    changed(fresh->database.schema != was.schema, "database.schema");
    changed(fresh->admin.listen != settings_->admin.listen, "admin.listen");
    changed(fresh->relay.notify != settings_->relay.notify, "relay.notify");
    if (!fixed.empty()) telemetry::log(telemetry::level::warn, "reload_partial", "changed, and holds from the next start on: " + fixed);
    auto merged = std::make_shared<config::config>(*fresh);
    merged->database = was;
    merged->admin = settings_->admin;
    merged->relay.notify = settings_->relay.notify;
    settings_ = merged;
    telemetry::init_log(settings_->log.level, settings_->log.format);
    sender_->replace_policy(settings_->egress.policy, settings_->egress.policy.allow_http, settings_->egress.no_proxy);
    synced_ = false;
    return true;
}

asio::awaitable<void> process::feed_watchdog() {
    while (!ended_) {
        systemd_.feed_watchdog();
        co_await watchdog_alarm_->wait(time_.now() + *systemd_.watchdog_interval());
    }
}

asio::awaitable<void> process::report_status() {
    std::string last;
    while (!ended_) {
        auto line = status_line(relay_->look());
        if (line != last && signals_ == 0) systemd_.status(line);
        last = std::move(line);
        co_await status_alarm_->wait(time_.now() + status_interval);
    }
}

std::string process::metrics_text() {
    const auto totals = sender_->connection_totals();
    metrics_.connections(totals.opened, totals.reused);
    const auto v = relay_->look();
    metrics_.in_flight(v.in_flight, v.in_flight_bytes);
    metrics_.database_up(v.database_up);
    return metrics_.text();
}

admin::relay_state process::state() const {
    const auto v = relay_->look();
    admin::relay_state s;
    s.database_up = v.database_up;
    s.schema_ok = v.ready || v.database_up;
    s.claims_running = v.claiming;
    s.stopping = v.stopping;
    s.reason = v.reason;
    s.last_claim_age_seconds = v.last_claim_age_seconds;
    return s;
}

}  // namespace outboxd::daemon
