// What broke on the way to an answer, as a value. Floor 4, used inside the room only.
#pragma once

#include <boost/system/error_code.hpp>
#include <string>
#include <string_view>

#include "lifecycle/outcome.hpp"

namespace outboxd::https {

struct fault {
    lifecycle::error_class error_class{lifecycle::error_class::none};
    std::string text;  // printable, without secrets and without addresses that the URL does not hold itself
    bool own{false};   // this process or this host is short of something: says nothing about the receiver
    [[nodiscard]] explicit operator bool() const noexcept { return error_class != lifecycle::error_class::none; }
};

[[nodiscard]] inline fault make_fault(lifecycle::error_class c, std::string text) {
    return fault{c, std::move(text), false};
}
[[nodiscard]] inline fault own_fault(std::string text) {
    return fault{lifecycle::error_class::local, std::move(text), true};
}

// EMFILE, ENFILE, ENOMEM, ENOBUFS: a shortage on this side. (EADDRNOTAVAIL counts only for IPv4: with IPv6 it means that the host has none.)
[[nodiscard]] bool is_shortage(const boost::system::error_code& ec) noexcept;
// The stream ended or was torn down by the other side.
[[nodiscard]] bool is_closed_by_peer(const boost::system::error_code& ec) noexcept;
// `refused`, `reset by the other side`, `no route to host` ...: never an address.
[[nodiscard]] std::string describe(const boost::system::error_code& ec);

}  // namespace outboxd::https
