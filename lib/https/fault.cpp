#include "https/fault.hpp"

#include <boost/asio/error.hpp>
#include <cerrno>

namespace outboxd::https {

bool is_shortage(const boost::system::error_code& ec) noexcept {
    if (ec.category() != boost::system::system_category()) return false;
    switch (ec.value()) {
        case EMFILE:
        case ENFILE:
        case ENOMEM:
        case ENOBUFS: return true;
        default: return false;
    }
}

bool is_closed_by_peer(const boost::system::error_code& ec) noexcept {
    namespace error = boost::asio::error;
    return ec == error::eof || ec == error::connection_reset || ec == error::broken_pipe || ec == error::connection_aborted || ec == error::not_connected;
}

std::string describe(const boost::system::error_code& ec) {
    namespace error = boost::asio::error;
    if (ec == error::eof) return "closed by the other side";
    if (ec == error::connection_reset || ec == error::broken_pipe) return "reset by the other side";
    if (ec == error::connection_refused) return "refused";
    if (ec == error::timed_out) return "timed out in the network";
    if (ec == error::host_unreachable) return "no route to host";
    if (ec == error::network_unreachable) return "network unreachable";
    if (ec == error::address_family_not_supported || ec == boost::system::errc::address_not_available) return "no local address of this family";
    return ec.message();
}

}  // namespace outboxd::https
