// The local clock and sleeping, injected so that tests and the simulation own the time. Floor 3, abstract.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "base/time.hpp"

namespace outboxd::ports {

class time_source {
public:
    virtual ~time_source() = default;
    [[nodiscard]] virtual base::boot_time now() const noexcept = 0;
    [[nodiscard]] virtual base::wall_time wall_now() const noexcept = 0;  // only for webhook-timestamp and HTTP dates
    [[nodiscard]] virtual double random() = 0;                            // uniform in [0,1)
};

}  // namespace outboxd::ports
