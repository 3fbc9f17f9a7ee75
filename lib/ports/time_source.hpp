// The local clock and waiting, injected so that tests and the simulation own the time. Floor 3, abstract.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>

#include "base/time.hpp"

namespace outboxd::ports {

// One waiter at a time. A ring that comes while nobody waits is kept for the next wait.
class alarm {
public:
    virtual ~alarm() = default;
    // Returns at `until` (false) or at a ring (true), whichever comes first. boot_time::max(): only a ring ends it.
    virtual boost::asio::awaitable<bool> wait(base::boot_time until) = 0;
    virtual void ring() = 0;
};

class time_source {
public:
    virtual ~time_source() = default;
    [[nodiscard]] virtual base::boot_time now() const noexcept = 0;
    [[nodiscard]] virtual base::wall_time wall_now() const noexcept = 0;  // only for webhook-timestamp and HTTP dates
    [[nodiscard]] virtual double random() = 0;                            // uniform in [0,1)
    [[nodiscard]] virtual std::unique_ptr<alarm> make_alarm() = 0;
};

}  // namespace outboxd::ports
