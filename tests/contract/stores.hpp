// The two stores that the suite runs on, behind one face: what applications and operators do beside the relay.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "ports/delivery_store.hpp"
#include "postgres/run_until_done.hpp"
#include "support/catch.hpp"
#include "support/fake_database.hpp"
#include "support/results.hpp"

namespace outboxd::contract {

using testkit::fake_attempt;
using testkit::fake_event;

// One empty outbox and a store on it.
class outbox {
public:
    virtual ~outbox() = default;
    virtual ports::delivery_store& store() = 0;
    virtual std::int64_t insert(const fake_event& e) = 0;
    virtual std::int64_t insert_unseen(const fake_event& e) = 0;
    // Inserted by a transaction that stays open until the returned handle commits (true) or rolls back.
    virtual std::int64_t insert_open(const fake_event& e) = 0;
    virtual void finish_open(bool commit) = 0;
    virtual void remove_event(std::int64_t event) = 0;
    virtual void add_endpoint(const std::string& name, const std::vector<std::string>& events, const std::string& secret = "") = 0;
    virtual void end_lease(std::int64_t relay) = 0;
    virtual void end_circuit_pause(const std::string& lane) = 0;
    virtual std::string status(std::int64_t event) = 0;
    virtual std::vector<fake_attempt> attempts(std::int64_t event) = 0;

    template <class T>
    base::result<T> run(ports::async_result<T> work) {
        return postgres::run_until_done<T>(loop_, std::move(work));
    }
    // The value of a call that must succeed.
    template <class T>
    T get(ports::async_result<T> work) {
        auto r = run<T>(std::move(work));
        REQUIRE(testkit::good(r));
        if constexpr (!std::is_void_v<T>) return std::move(*r);
    }

protected:
    boost::asio::io_context loop_{1};
};

std::unique_ptr<outbox> make_fake_outbox();
std::unique_ptr<outbox> make_postgres_outbox();

struct on_fake {
    static std::unique_ptr<outbox> make() { return make_fake_outbox(); }
};
struct on_postgres {
    static std::unique_ptr<outbox> make() { return make_postgres_outbox(); }
};

}  // namespace outboxd::contract
