// Wake-ups: the listener on a direct connection and behind a transaction pooler.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <csignal>
#include <filesystem>
#include <thread>

#include "postgres/notify_listener.hpp"
#include "postgres_bench.hpp"
#include "support/loopback.hpp"
#include "support/tls_material.hpp"

using namespace outboxd;
using namespace outboxd::integration;

namespace {

// Listener and store on one loop, as in the daemon.
struct listening_bench {
    listening_bench(const std::string& listen_url, const std::string& url)
        : store(loop.get_executor(), to(url), "outbox"),
          listener(loop.get_executor(), to(listen_url), "outbox", [this](std::string payload) { return store.probe_wakeup(std::move(payload)); },
                   {.connect = 3s, .probe_every = 15s, .probe_wait = 1s, .deaf_probe_every = 60s}) {
        listener.on_wakeup([this](std::string_view payload) { heard.emplace_back(payload); });
        asio::co_spawn(loop, listener.run(), [this](std::exception_ptr e) {
            ended = true;
            if (e) std::rethrow_exception(e);
        });
    }
    ~listening_bench() {
        listener.stop();
        store.abort();
        until([this] { return ended; });
    }
    template <class Condition>
    bool until(Condition condition, std::chrono::seconds limit = 20s) {
        const auto end = std::chrono::steady_clock::now() + limit;
        loop.restart();
        while (!condition() && std::chrono::steady_clock::now() < end) loop.run_one_for(50ms);
        return condition();
    }
    long count(std::string_view payload) const { return std::count(heard.begin(), heard.end(), payload); }

    asio::io_context loop{1};
    postgres::pg_delivery_store store;
    postgres::notify_listener listener;
    std::vector<std::string> heard;
    bool ended{false};
};

// pgbouncer in transaction mode in front of a database, on a free port.
class pooler {
public:
    pooler(postgres_cluster& server, const std::string& database) : port_(testkit::refused_port()) {
        directory_.write("users.txt", "\"postgres\" \"\"\n", 0644);
        ini_ = directory_.write("pgbouncer.ini",
                                "[databases]\n" + database + " = host=127.0.0.1 port=" + std::to_string(server.port()) + "\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = " + std::to_string(port_) +
                                    "\nunix_socket_dir =\nauth_type = trust\nauth_file = " + (directory_.path() / "users.txt").string() +
                                    "\npool_mode = transaction\ndefault_pool_size = 2\nuser = postgres\nlogfile = /dev/null\nadmin_users = postgres\n",
                                0644);
        std::filesystem::permissions(directory_.path(), std::filesystem::perms::all);
        url_ = "postgresql://postgres@127.0.0.1:" + std::to_string(port_) + "/" + database;
        start();
    }
    ~pooler() { stop(); }
    void start() {
        pid_ = fork();
        if (pid_ == 0) {
            execlp("pgbouncer", "pgbouncer", "-q", ini_.c_str(), static_cast<char*>(nullptr));
            execl("/usr/sbin/pgbouncer", "pgbouncer", "-q", ini_.c_str(), static_cast<char*>(nullptr));
            _exit(127);
        }
        for (int i = 0; i < 200; ++i) {
            try {
                testkit::query_value(url_, "select 1");
                return;
            } catch (const std::exception&) {
                std::this_thread::sleep_for(50ms);
            }
        }
        throw std::runtime_error("pgbouncer does not start");
    }
    void stop() {
        if (pid_ <= 0) return;
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }
    const std::string& url() const { return url_; }

private:
    testkit::temporary_directory directory_;
    std::filesystem::path ini_;
    int port_;
    std::string url_;
    pid_t pid_{-1};
};

}  // namespace

TEST_CASE("[B05] the listener proves itself, hears inserts, and comes back with a catch-up after its session was killed", "[postgres][faults][B05]") {
    const auto url = postgres_cluster::shared().create_database();
    migrate(url);
    listening_bench b{url, url};
    REQUIRE(b.until([&] { return b.listener.listening(); }));
    CHECK(b.count("any") == 1);
    CHECK(b.count("listening") == 1);
    testkit::query(url, "insert into outbox.relay (name, lease_until, wake) values ('x', now() + interval '1 hour', true)");
    insert(url);
    CHECK(b.until([&] { return std::any_of(b.heard.begin(), b.heard.end(), [](const auto& p) { return p.starts_with("lane:"); }); }));
    testkit::query(url, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'outboxd listen' and datname = current_database()");
    CHECK(b.until([&] { return b.count("deaf") == 1; }));
    CHECK(b.until([&] { return b.listener.listening(); }));
    CHECK(b.count("any") == 2);
    CHECK(b.count("listening") == 2);
    CHECK(std::none_of(b.heard.begin(), b.heard.end(), [](const auto& p) { return p.starts_with("probe:"); }));
}

TEST_CASE("[B08] through a transaction pooler the store works, the listener says that it is deaf, and a direct listen_url hears", "[postgres][faults][B08]") {
    auto& server = postgres_cluster::shared();
    const auto url = server.create_database();
    migrate(url);
    insert(url, 200);
    pooler bouncer{server, name_of(url)};
    bench a{bouncer.url()};
    bench b{bouncer.url()};
    const auto first = a.enlist();
    const auto second = b.enlist();
    std::size_t settled = 0;
    bool restarted = false;
    for (int turn = 0; turn < 20 && settled < 200; ++turn) {
        for (auto* side : {&a, &b}) {
            const auto who = side == &a ? first : second;
            auto rows = side->claim(who);
            if (!rows || rows->rows.empty()) continue;
            std::vector<lifecycle::settlement> batch;
            for (const auto& r : rows->rows) {
                batch.emplace_back();
                batch.back().delivery = r.delivery;
                batch.back().outcome = lifecycle::outcome::published;
            }
            if (!restarted) {
                bouncer.stop();
                bouncer.start();
                restarted = true;
            }
            auto changed = side->run<std::vector<std::int64_t>>(side->store.settle(who.relay, batch));
            if (!changed) changed = side->run<std::vector<std::int64_t>>(side->store.settle(who.relay, batch));
            REQUIRE(good(changed));
            settled += changed->size();
        }
    }
    CHECK(settled == 200);
    CHECK(good(a.check()));
    {
        listening_bench deaf{bouncer.url(), bouncer.url()};
        CHECK(deaf.until([&] { return deaf.count("deaf") == 1; }));
        CHECK(!deaf.listener.listening());
    }
    listening_bench direct{url, bouncer.url()};
    CHECK(direct.until([&] { return direct.listener.listening(); }));
}
