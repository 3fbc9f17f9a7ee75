// One relay process: its parts in floor order, signals, systemd, admin HTTP; torn down in reverse. Floor 5.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "admin/http_listener.hpp"
#include "config/config.hpp"
#include "https/beast_sender.hpp"
#include "postgres/drain_statements.hpp"
#include "postgres/notify_listener.hpp"
#include "postgres/pg_delivery_store.hpp"
#include "postgres/pg_operator_store.hpp"
#include "relay/relay.hpp"
#include "relay/system_time.hpp"
#include "systemd_notify.hpp"
#include "telemetry/metrics.hpp"

namespace outboxd::daemon {

namespace asio = boost::asio;
using shared_config = std::shared_ptr<const config::config>;

struct drain_result {
    relay::drain_tally tally;
    std::optional<postgres::drain_remainder> left;  // absent: the database could not be asked
    std::string reason;                             // why not
    bool schema_fault{false};                       // the database answers, but does not fit
};

class process {
public:
    // `reread` reads the configuration again at SIGHUP; null: nothing usable, nothing changes.
    process(shared_config settings, std::function<shared_config()> reread);
    ~process();

    // Until a signal. True: ended in order, everything written.
    bool run();
    drain_result drain(int max_passes, base::milliseconds timeout);

private:
    asio::awaitable<base::result<void>> before_ready();
    asio::awaitable<void> supervise();
    asio::awaitable<void> run_drain(int max_passes, base::milliseconds timeout, drain_result& result);
    asio::awaitable<void> watch_stop_signals();
    asio::awaitable<void> watch_reload_signal();
    asio::awaitable<void> feed_watchdog();
    asio::awaitable<void> report_status();
    [[nodiscard]] bool reload();
    void wind_up();
    [[nodiscard]] std::string metrics_text();
    [[nodiscard]] admin::relay_state state() const;
    [[nodiscard]] postgres::connect_options connect_options(std::string purpose) const;

    shared_config settings_;
    std::function<shared_config()> reread_;
    asio::io_context context_{1};
    relay::system_time time_;
    telemetry::metrics metrics_;
    std::unique_ptr<postgres::pg_delivery_store> store_;
    std::unique_ptr<postgres::notify_listener> wakeup_;
    std::unique_ptr<postgres::pg_operator_store> operator_store_;
    std::unique_ptr<https::network_sender> sender_;
    std::unique_ptr<relay::relay> relay_;
    std::unique_ptr<admin::listener> admin_;
    relay::task_group group_;
    asio::signal_set stop_signals_;
    asio::signal_set reload_signal_;
    std::unique_ptr<ports::alarm> watchdog_alarm_;
    std::unique_ptr<ports::alarm> status_alarm_;
    systemd_notify systemd_;
    bool synced_{false};  // the file's endpoints are in the table
    bool ended_{false};
    int signals_{0};
    bool in_order_{true};
};

}  // namespace outboxd::daemon
