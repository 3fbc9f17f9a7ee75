// A coroutine that waits for something other than Asio: parked here, woken by whoever has the news. Floor 4, used inside the room only.
#pragma once

#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/post.hpp>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace outboxd::https {

// Holds one waiting handler in place, so that the hot path allocates nothing. Single-threaded.
class parked {
public:
    parked() = default;
    parked(const parked&) = delete;
    parked& operator=(const parked&) = delete;
    ~parked() { drop(); }

    // `co_await p.wait();` suspends until wake(). At most one waits at a time; the caller checks first that there is something to wait for.
    [[nodiscard]] auto wait() {
        return boost::asio::async_initiate<const boost::asio::deferred_t&, void()>([this](auto handler) { hold(std::move(handler)); }, boost::asio::deferred);
    }
    [[nodiscard]] bool waiting() const noexcept { return action_ != nullptr; }
    // Resumes the coroutine inside this call: the caller must touch nothing afterwards that the coroutine may have ended.
    void wake() {
        if (action_ == nullptr) return;
        handler_box box{*this};
        box.run();
    }
    // Resumes it from the event loop: safe while walking a list of waiters.
    template <class Executor>
    void wake_later(const Executor& executor) {
        if (action_ == nullptr) return;
        boost::asio::post(executor, [box = handler_box{*this}]() mutable { box.run(); });
    }
    // Destroys the coroutine with all that waits for it.
    void drop() noexcept {
        if (action_ == nullptr) return;
        handler_box box{*this};
    }

private:
    static constexpr std::size_t capacity = 48;
    enum class verb { run, move, destroy };
    using action = void (*)(verb, void* from, void* to);

    template <class Handler>
    void hold(Handler&& handler) {
        using type = std::decay_t<Handler>;
        static_assert(sizeof(type) <= capacity && alignof(type) <= alignof(std::max_align_t) && std::is_nothrow_move_constructible_v<type>);
        ::new (static_cast<void*>(storage_)) type(std::forward<Handler>(handler));
        action_ = [](verb what, void* from, void* to) {
            type& held = *static_cast<type*>(from);
            if (what == verb::move) ::new (to) type(std::move(held));
            if (what == verb::run) std::move(held)();
            held.~type();
        };
    }

    // The handler on its way out: whatever the coroutine does with `parked` meanwhile does not matter to it.
    class handler_box {
    public:
        explicit handler_box(parked& from) noexcept : action_(std::exchange(from.action_, nullptr)) { action_(verb::move, from.storage_, storage_); }
        handler_box(handler_box&& other) noexcept : action_(std::exchange(other.action_, nullptr)) {
            if (action_ != nullptr) action_(verb::move, other.storage_, storage_);
        }
        handler_box(const handler_box&) = delete;
        handler_box& operator=(handler_box&&) = delete;
        ~handler_box() {
            if (action_ != nullptr) action_(verb::destroy, storage_, nullptr);
        }
        void run() { std::exchange(action_, nullptr)(verb::run, storage_, nullptr); }

    private:
        action action_;
        alignas(std::max_align_t) std::byte storage_[capacity];
    };

    action action_{nullptr};
    alignas(std::max_align_t) std::byte storage_[capacity];
};

}  // namespace outboxd::https
