// TCP to the first of several addresses that answers: RFC 8305. Floor 4, used inside the room only.
//
// Families take turns, the next address is tried 250 ms after the last or as soon as it has failed, the first connection wins and the others are closed.
#pragma once

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "https/attempt.hpp"
#include "https/connection.hpp"
#include "https/fault.hpp"
#include "https/parked.hpp"
#include "wire/address_policy.hpp"

namespace outboxd::https {

// The order of attempts: the families of `addresses` in turn, beginning with the first one's; `preferred` (the last winner) before all.
[[nodiscard]] std::vector<wire::ip_address> in_order_of_attempts(const std::vector<wire::ip_address>& addresses,
                                                                 const std::optional<wire::ip_address>& preferred);

class connect_race final : public interruptible, public std::enable_shared_from_this<connect_race> {
public:
    static constexpr auto stagger = std::chrono::milliseconds{250};
    static constexpr std::size_t at_most = 32;  // addresses

    connect_race(boost::asio::io_context& context, std::vector<wire::ip_address> addresses, std::uint16_t port);
    void begin();
    [[nodiscard]] bool busy() const noexcept { return !over_; }
    [[nodiscard]] auto finished() { return done_.wait(); }
    void interrupt() override;
    void drop_waiter() noexcept override { done_.drop(); }

    [[nodiscard]] std::optional<tcp_socket>& winner() noexcept { return winner_; }
    [[nodiscard]] const wire::ip_address& winner_address() const noexcept { return addresses_[winner_index_]; }
    // When there is no winner and nobody interrupted: `refused`, `no route to host` ... without the address.
    [[nodiscard]] const std::string& why() const noexcept { return why_; }
    [[nodiscard]] bool own_fault() const noexcept { return own_; }

private:
    using timer = boost::asio::basic_waitable_timer<std::chrono::steady_clock, boost::asio::wait_traits<std::chrono::steady_clock>, executor>;
    void next();
    void failed(std::size_t index, const boost::system::error_code& ec);
    void on_connect(std::size_t index, const boost::system::error_code& ec);
    void end();

    boost::asio::io_context& context_;
    std::vector<wire::ip_address> addresses_;
    std::uint16_t port_;
    std::vector<std::optional<tcp_socket>> sockets_;
    timer timer_;
    parked done_;
    std::optional<tcp_socket> winner_;
    std::size_t winner_index_{0};
    std::size_t tried_{0};
    std::size_t failed_{0};
    std::string why_;
    bool own_{true};  // until an attempt fails for another reason
    bool over_{false};
};

}  // namespace outboxd::https
