// One send that is under way: its phase, its time limit and what it waits for. Floor 4, used inside the room only.
#pragma once

#include <boost/intrusive/list_hook.hpp>
#include <cstdint>

#include "base/time.hpp"

namespace outboxd::https {

// proxy_dial: on the way to the proxy; proxy: its answer to CONNECT is awaited.
enum class phase : std::uint8_t { start, lookup, connect, proxy_dial, proxy, tls, request };

// Something that a send waits for and that can be told to give up. The waiting coroutine is resumed later, never inside the call.
class interruptible {
public:
    virtual void interrupt() = 0;
    // Destroys the waiting coroutine unresumed: the sender goes while sends are under way.
    virtual void drop_waiter() noexcept = 0;

protected:
    ~interruptible() = default;
};

struct attempt : boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
    enum class end : std::uint8_t { none, timed_out, aborted };

    base::boot_time started{};
    base::boot_time deadline{};  // of the whole attempt
    base::boot_time limit{};     // what the clock is compared with now: the deadline, or an earlier end of lookup or connecting
    https::phase phase{https::phase::start};
    end ended{end::none};
    interruptible* waits_for{nullptr};

    void stop(end why) {
        if (ended != end::none) return;
        ended = why;
        if (waits_for != nullptr) waits_for->interrupt();
    }
};

}  // namespace outboxd::https
