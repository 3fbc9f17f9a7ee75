// The sender's options from the configuration, the same for the relay and for the commands that test an endpoint. Floor 5.
#pragma once

#include <vector>

#include "config/config.hpp"
#include "https/beast_sender.hpp"
#include "wire/address_policy.hpp"

namespace outboxd::daemon {

// Addresses of this host's interfaces (getifaddrs(3)); empty when they cannot be read.
[[nodiscard]] std::vector<wire::ip_address> own_addresses();
// egress.* with the host's own addresses.
[[nodiscard]] https::sender_options sender_options_of(const config::config& settings);

}  // namespace outboxd::daemon
