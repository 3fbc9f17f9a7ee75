#include "stores.hpp"

#include <boost/asio/steady_timer.hpp>
#include <optional>

#include "postgres/migrator.hpp"
#include "postgres/pg_delivery_store.hpp"
#include "support/fake_store.hpp"
#include "support/postgres_cluster.hpp"

namespace outboxd::contract {

namespace {

// Real time, for the fake as well: the suite asks both the same way.
class real_time final : public ports::time_source {
public:
    [[nodiscard]] base::boot_time now() const noexcept override { return base::boot_clock::now(); }
    [[nodiscard]] base::wall_time wall_now() const noexcept override { return std::chrono::time_point_cast<base::microseconds>(std::chrono::system_clock::now()); }
    [[nodiscard]] double random() override { return 0.5; }
    [[nodiscard]] std::unique_ptr<ports::alarm> make_alarm() override { return nullptr; }  // no fault of this suite lasts
};

class fake_outbox final : public outbox {
public:
    ports::delivery_store& store() override { return store_; }
    std::int64_t insert(const fake_event& e) override { return database_.insert(e); }
    std::int64_t insert_unseen(const fake_event& e) override { return database_.insert_unseen(e); }
    std::int64_t insert_open(const fake_event& e) override {
        open_ = database_.begin();
        return database_.insert(e, open_);
    }
    void finish_open(bool commit) override { commit ? database_.commit(open_) : database_.rollback(open_); }
    void remove_event(std::int64_t event) override { database_.remove_event(event); }
    void add_endpoint(const std::string& name, const std::vector<std::string>& events, const std::string& secret) override {
        testkit::fake_endpoint e;
        e.row.name = name;
        e.row.url = "https://" + name + ".example.com/";
        e.row.settings = "{}";
        e.row.managed_by = "sql";
        if (!secret.empty()) e.row.secrets.emplace_back(secret, std::nullopt);
        e.events = events;
        database_.add_endpoint(std::move(e));
    }
    void end_lease(std::int64_t relay) override { database_.relays[relay].lease_until = database_.now() - base::seconds{1}; }
    void end_circuit_pause(const std::string& lane) override { database_.circuits[lane].open_until = database_.now() - base::seconds{1}; }
    std::string status(std::int64_t event) override { return database_.status_of(event); }
    std::vector<fake_attempt> attempts(std::int64_t event) override {
        std::vector<fake_attempt> rows;
        for (const auto& a : database_.attempts) {
            if (a.event == event) rows.push_back(a);
        }
        return rows;
    }

private:
    real_time time_;
    testkit::fake_database database_{[this] { return time_.wall_now(); }};
    testkit::fake_store store_{database_, time_};
    std::uint64_t open_{0};
};

std::string literal(const std::string& text) {
    std::string quoted = "'";
    for (const char c : text) {
        if (c == '\'') quoted.push_back('\'');
        quoted.push_back(c);
    }
    return quoted + "'";
}

std::string literal(const std::optional<std::string>& text) { return text ? literal(*text) : "NULL"; }
std::string literal(const std::optional<base::wall_time>& t) { return t ? "to_timestamp(" + std::to_string(t->time_since_epoch().count()) + " / 1000000.0)" : "NULL"; }

std::string insert_text(const fake_event& e) {
    return "INSERT INTO outbox.event (event_type, payload, payload_bytes, endpoint, url, breaker_key, ordering_key, tenant_id, deliver_at, expires_at, max_attempts) VALUES (" + literal(e.event_type) + ", " +
           (e.is_json ? literal(e.body) + ", NULL" : "NULL, " + literal(e.body) + "::bytea") + ", " + literal(e.endpoint) + ", " + (e.url.empty() ? "NULL" : literal(e.url)) + ", " +
           (e.url.empty() ? "NULL" : literal(e.lane.empty() ? "test" : e.lane.substr(4))) + ", " + literal(e.ordering_key) + ", " + literal(e.tenant_id) + ", " + literal(e.deliver_at) + ", " +
           literal(e.expires_at) + ", " + (e.max_attempts == 0 ? "NULL" : std::to_string(e.max_attempts)) + ") RETURNING id";
}

// A migrated database, made once and copied for each test.
const std::string& migrated_template() {
    static const std::string name = [] {
        auto& server = testkit::postgres_cluster::shared();
        const auto url = server.create_database();
        boost::asio::io_context loop;
        postgres::migrator m{loop.get_executor(), {base::secret{url}, {}, {}}, "outbox"};
        const auto done = postgres::run_until_done<std::vector<std::string>>(loop, m.apply());
        if (!done) throw std::runtime_error("migrate: " + done.error().text);
        return url.substr(url.rfind('/') + 1);
    }();
    return name;
}

class postgres_outbox final : public outbox {
public:
    ports::delivery_store& store() override { return store_; }
    std::int64_t insert(const fake_event& e) override { return std::stoll(testkit::query_value(url_, insert_text(e))); }
    std::int64_t insert_unseen(const fake_event& e) override { return std::stoll(testkit::query_value(url_, "SET session_replication_role = replica; " + insert_text(e))); }
    std::int64_t insert_open(const fake_event& e) override {
        open_.emplace(url_);
        open_->query("BEGIN");
        return std::stoll(*open_->query(insert_text(e))[0][0]);
    }
    void finish_open(bool commit) override {
        open_->query(commit ? "COMMIT" : "ROLLBACK");
        open_.reset();
    }
    void remove_event(std::int64_t event) override { testkit::query(url_, "DELETE FROM outbox.event WHERE id = " + std::to_string(event)); }
    void add_endpoint(const std::string& name, const std::vector<std::string>& events, const std::string& secret) override {
        std::string patterns;
        for (const auto& e : events) patterns += (patterns.empty() ? "" : ",") + literal(e);
        testkit::query(url_, "INSERT INTO outbox.endpoint (name, url, events) VALUES (" + literal(name) + ", " + literal("https://" + name + ".example.com/") + ", ARRAY[" + patterns + "])");
        if (!secret.empty()) testkit::query(url_, "INSERT INTO outbox.endpoint_secret (endpoint, secret) VALUES (" + literal(name) + ", " + literal(secret) + ")");
    }
    void end_lease(std::int64_t relay) override { testkit::query(url_, "UPDATE outbox.relay SET lease_until = clock_timestamp() - interval '1 second' WHERE id = " + std::to_string(relay)); }
    void end_circuit_pause(const std::string& lane) override { testkit::query(url_, "UPDATE outbox.circuit SET open_until = clock_timestamp() - interval '1 second' WHERE lane = " + literal(lane)); }
    std::string status(std::int64_t event) override { return testkit::query_value(url_, "SELECT status FROM outbox.status WHERE event = " + std::to_string(event)); }
    std::vector<fake_attempt> attempts(std::int64_t event) override {
        std::vector<fake_attempt> rows;
        const auto text = "SELECT delivery, attempt, outcome, coalesce(http_status, 0), coalesce(error_class, ''), coalesce(error, ''), coalesce(relay, 0) FROM outbox.attempt WHERE event = " + std::to_string(event) +
                          " ORDER BY id";
        for (const auto& r : testkit::query(url_, text)) rows.push_back({std::stoll(*r[0]), event, std::stoi(*r[1]), *r[2], std::stoi(*r[3]), *r[4], *r[5], std::nullopt, std::stoll(*r[6])});
        return rows;
    }

private:
    std::string url_{testkit::postgres_cluster::shared().create_database(migrated_template())};
    postgres::pg_delivery_store store_{loop_.get_executor(), {base::secret{url_}, {}, {}}, "outbox"};
    std::optional<testkit::held_session> open_;
};

}  // namespace

std::unique_ptr<outbox> make_fake_outbox() { return std::make_unique<fake_outbox>(); }
std::unique_ptr<outbox> make_postgres_outbox() { return std::make_unique<postgres_outbox>(); }

}  // namespace outboxd::contract
