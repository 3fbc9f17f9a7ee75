#include "network.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <cstring>

namespace outboxd::daemon {

std::vector<wire::ip_address> own_addresses() {
    std::vector<wire::ip_address> found;
    ifaddrs* list = nullptr;
    if (::getifaddrs(&list) != 0) return found;
    for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
        if (i->ifa_addr == nullptr) continue;
        wire::ip_address address;
        if (i->ifa_addr->sa_family == AF_INET) {
            sockaddr_in v4{};
            std::memcpy(&v4, i->ifa_addr, sizeof v4);
            std::memcpy(address.bytes.data(), &v4.sin_addr, 4);
        } else if (i->ifa_addr->sa_family == AF_INET6) {
            sockaddr_in6 v6{};
            std::memcpy(&v6, i->ifa_addr, sizeof v6);
            std::memcpy(address.bytes.data(), &v6.sin6_addr, 16);
            address.v6 = true;
        } else {
            continue;
        }
        found.push_back(address);
    }
    ::freeifaddrs(list);
    return found;
}

https::sender_options sender_options_of(const config::config& settings) {
    https::sender_options options;
    options.policy = settings.egress.policy;
    options.policy.own_addresses = own_addresses();
    options.allow_http = settings.egress.policy.allow_http;
    options.no_proxy = settings.egress.no_proxy;
    return options;
}

}  // namespace outboxd::daemon
