// The real clock and real timers behind ports::time_source. Floor 4.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <random>

#include "ports/time_source.hpp"

namespace outboxd::relay {

class system_time : public ports::time_source {
public:
    explicit system_time(boost::asio::any_io_executor executor);
    [[nodiscard]] base::boot_time now() const noexcept override;
    [[nodiscard]] base::wall_time wall_now() const noexcept override;
    [[nodiscard]] double random() override;
    [[nodiscard]] std::unique_ptr<ports::alarm> make_alarm() override;

private:
    boost::asio::any_io_executor executor_;
    std::mt19937_64 generator_;
};

}  // namespace outboxd::relay
