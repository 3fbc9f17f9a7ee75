#include "https/connect_race.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>

namespace outboxd::https {

namespace asio = boost::asio;
using boost::system::error_code;

std::vector<wire::ip_address> in_order_of_attempts(const std::vector<wire::ip_address>& addresses, const std::optional<wire::ip_address>& preferred) {
    std::vector<wire::ip_address> families[2];
    const bool first_family = !addresses.empty() && addresses.front().v6;
    for (const auto& one : addresses) families[one.v6 == first_family ? 0 : 1].push_back(one);
    std::vector<wire::ip_address> ordered;
    for (std::size_t i = 0; i < std::max(families[0].size(), families[1].size()); ++i)
        for (const auto& family : families)
            if (i < family.size()) ordered.push_back(family[i]);
    if (preferred) {
        const auto found = std::find(ordered.begin(), ordered.end(), *preferred);
        if (found != ordered.end()) std::rotate(ordered.begin(), found, found + 1);
    }
    if (ordered.size() > connect_race::at_most) ordered.resize(connect_race::at_most);
    return ordered;
}

namespace {

asio::ip::tcp::endpoint endpoint_of(const wire::ip_address& address, std::uint16_t port) {
    if (address.v6) return {asio::ip::address_v6(address.bytes), port};
    asio::ip::address_v4::bytes_type bytes;
    std::copy_n(address.bytes.begin(), 4, bytes.begin());
    return {asio::ip::address_v4(bytes), port};
}

}  // namespace

connect_race::connect_race(asio::io_context& context, std::vector<wire::ip_address> addresses, std::uint16_t port)
    : context_(context), addresses_(std::move(addresses)), port_(port), sockets_(addresses_.size()), timer_(context.get_executor()) {}

void connect_race::begin() {
    next();
}

void connect_race::next() {
    while (!over_ && tried_ < addresses_.size()) {
        const std::size_t index = tried_++;
        auto& socket = sockets_[index].emplace(context_.get_executor());
        const auto endpoint = endpoint_of(addresses_[index], port_);
        error_code ec;
        socket.open(endpoint.protocol(), ec);
        if (!ec) socket.non_blocking(true, ec);
        if (!ec) socket.set_option(asio::ip::tcp::no_delay(true), ec);
        if (ec) {
            failed(index, ec);
            continue;
        }
        socket.async_connect(endpoint, [self = shared_from_this(), index](const error_code& result) { self->on_connect(index, result); });
        if (tried_ < addresses_.size()) {
            timer_.expires_after(stagger);
            timer_.async_wait([self = shared_from_this(), mine = tried_](const error_code& result) {
                // Unless a failure has started the next one already.
                if (!result && !self->over_ && self->tried_ == mine) self->next();
            });
        }
        return;
    }
    if (!over_ && failed_ == addresses_.size()) end();
}

void connect_race::failed(std::size_t index, const error_code& ec) {
    ++failed_;
    sockets_[index].reset();
    const bool mine = is_shortage(ec) || (ec == boost::system::errc::address_not_available && !addresses_[index].v6);
    // A fault of the network or the receiver says more than one of ours, and the first address more than a later one.
    if (why_.empty() || (own_ && !mine)) why_ = mine && !is_shortage(ec) ? "no local port is free" : describe(ec);
    if (!mine) own_ = false;
}

void connect_race::on_connect(std::size_t index, const error_code& ec) {
    if (over_) return;
    if (ec) {
        failed(index, ec);
        if (tried_ < addresses_.size() || failed_ == addresses_.size()) next();
        return;
    }
    winner_.emplace(std::move(*sockets_[index]));
    winner_index_ = index;
    end();
}

void connect_race::end() {
    over_ = true;
    timer_.cancel();
    sockets_.clear();
    done_.wake();
}

void connect_race::interrupt() {
    if (over_) return;
    over_ = true;
    timer_.cancel();
    sockets_.clear();
    done_.wake_later(context_.get_executor());
}

}  // namespace outboxd::https
