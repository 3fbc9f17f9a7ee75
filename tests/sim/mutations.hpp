// Role: the list of ways in which the simulation breaks the system on purpose: in the database, or in what a relay believes of it.
// Promise: each is one rule of the design taken away, and nothing else.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/fake_database.hpp"
#include "support/store_layer.hpp"

namespace outboxd::sim {

struct mutation {
    std::string name;
    std::function<void(testkit::broken_rules&)> database;
    std::function<std::unique_ptr<testkit::store_layer>(ports::delivery_store&)> layer;
    bool clock_jumps{false};  // it matters only where the server's clock is moved
};

[[nodiscard]] const std::vector<mutation>& mutations();

}  // namespace outboxd::sim
