// Wake-ups from the database (LISTEN). Floor 3, abstract.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace outboxd::ports {

// Payloads: `lane:<lane>`, `any`, `route`, `endpoint`, `circuit`, and `listening` / `deaf` from the listener itself whenever its state changes.
using wakeup_handler = std::function<void(std::string_view payload)>;

class wakeup {
public:
    virtual ~wakeup() = default;
    virtual void on_wakeup(wakeup_handler handler) = 0;
    // LISTEN is in force and was proved by a notification of our own.
    [[nodiscard]] virtual bool listening() const noexcept = 0;
};

}  // namespace outboxd::ports
