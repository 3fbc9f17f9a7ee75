// Takes due deliveries for this relay: decides how many and for which lanes, runs the claim, files the rows into their lanes. Floor 4.
//
// One claim at a time. Lanes of which more rows are known (hot), that were woken, or that gave rows lately are asked by name with a lower bound; the others are found by discovery, a moving cursor over all lanes.
// While claims come back small the database is asked to wake us (NOTIFY); while claiming back to back it is not, and a short poll takes its place.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <string_view>
#include <vector>

#include "lifecycle/safe_moment.hpp"
#include "relay/engine.hpp"

namespace outboxd::relay {

class claimer {
public:
    explicit claimer(engine& shared);

    // The loop; returns after stop().
    [[nodiscard]] asio::awaitable<void> run();
    void stop();

    // Rows of this lane may be due now.
    void wake_lane(std::string_view name);
    // Any lane may have rows.
    void wake_all();
    // A writer's wake-up came: others may have gone without one because of it, so that all lanes are looked at a little later.
    void look_again_soon();
    // A row of this lane falls due at `when` (own retries and releases).
    void wake_lane_at(std::string_view name, base::boot_time when);
    // Room came free.
    void room() {
        if (waiting_for_room_) work_->ring();
    }
    void ring() { work_->ring(); }
    // A row came for a lane whose endpoint this relay does not know yet.
    void on_unknown_endpoint(std::function<void()> handler) { on_unknown_endpoint_ = std::move(handler); }
    // The lease is said to be gone.
    void on_lease_lost(std::function<void()> handler) { on_lease_lost_ = std::move(handler); }
    // A claim failed because a table, column or function is not what it was.
    void on_schema_fault(std::function<void(const base::error&)> handler) { on_schema_fault_ = std::move(handler); }
    // Bounds are worth nothing after rescue or when rows came back in another way.
    void forget_bounds();
    // Under a new id: its row asks for no wake-ups yet.
    void registered();

    [[nodiscard]] double last_claim_unix() const noexcept { return last_claim_unix_; }
    [[nodiscard]] base::boot_time last_claim() const noexcept { return last_claim_; }
    [[nodiscard]] bool failing() const noexcept { return failing_; }
    [[nodiscard]] const std::string& last_error() const noexcept { return last_error_; }
    [[nodiscard]] bool asking() const noexcept { return asking_; }
    // For `drain`: a whole round of discovery has found nothing since the last reset.
    [[nodiscard]] bool found_nothing() const noexcept { return empty_round_; }
    void look_again() {
        empty_round_ = false;
        wake_all();
    }

private:
    struct plan {
        ports::claim_request request;
        std::vector<lane*> asked;
        bool room_short{false};  // lanes with more rows wait for room
        [[nodiscard]] bool worthwhile() const noexcept { return !asked.empty() || request.discover_lanes > 0; }
    };
    [[nodiscard]] plan make_plan();
    [[nodiscard]] int wanted(lane& l, base::boot_time now) const;
    void ask_woken(plan& p, std::size_t most, base::boot_time now);
    void ask_active(plan& p, std::size_t most, base::boot_time now);
    void ask(plan& p, lane& l, int want, base::boot_time now);
    void plan_discovery(plan& p, int rows, base::boot_time now);
    void take_due_wakes(base::boot_time now);
    [[nodiscard]] asio::awaitable<bool> claim_once(plan p);
    void file(ports::claim_reply& reply, plan& p);
    void file_row(ports::claimed row, base::boot_time now);
    void look_for_strays(base::boot_time now);
    void hand_back(ports::claimed row, lane& l, base::milliseconds pause);
    void settle_at_once(lane& l, lifecycle::settlement what, ports::claimed row);
    void move_bounds(const ports::claim_reply& reply, plan& p);
    void count(std::size_t rows, int limit, base::boot_time now);
    void after_failure(const base::error& why);
    [[nodiscard]] bool may_claim(base::boot_time now) const;
    [[nodiscard]] asio::awaitable<void> recover();
    [[nodiscard]] asio::awaitable<void> idle(bool room_short);
    [[nodiscard]] asio::awaitable<void> ask_for_wakeups();
    [[nodiscard]] bool should_ask() const;
    [[nodiscard]] base::boot_time next_moment() const;
    void list(lane& l);

    engine& shared_;
    std::unique_ptr<ports::alarm> work_;
    lifecycle::safe_moment safe_;
    std::deque<lane*> woken_;
    std::deque<lane*> active_;  // hot, or gave rows lately
    struct timed_wake {
        base::boot_time when;
        std::string lane;
        bool operator>(const timed_wake& other) const noexcept { return when > other.when; }
    };
    std::priority_queue<timed_wake, std::vector<timed_wake>, std::greater<>> timed_;

    std::string cursor_;
    bool discover_round_{true};        // a whole round over all lanes is due
    bool round_found_rows_{false};
    bool empty_round_{false};
    base::boot_time next_discovery_{};
    base::boot_time next_poll_{};

    bool asking_{false};
    bool flag_known_{false};           // what the database has is what asking_ says
    // A writer that looked at the flag before it was set wakes nobody, however late it commits: until all that were at work then have ended, polls go on.
    bool flag_fresh_{false};                     // no claim has been made since
    std::optional<std::uint64_t> unseen_below_;  // transactions below may not have seen it
    std::optional<base::boot_time> look_again_;
    [[nodiscard]] bool wakeups_cover_all() const noexcept { return asking_ && !flag_fresh_ && !unseen_below_; }
    void note_writers(const ports::claim_reply& reply);
    base::boot_time window_start_{};   // of the count of claims and rows below
    int window_claims_{0};
    int window_rows_{0};
    int last_window_claims_{0};
    int last_window_rows_{0};
    int window_full_{0};
    int small_pause_ms_{2};
    bool warm_due_{false};             // lanes that gave rows lately are asked although nobody woke them
    std::function<void()> on_unknown_endpoint_;
    std::function<void()> on_lease_lost_;
    std::function<void(const base::error&)> on_schema_fault_;

    bool waiting_for_room_{false};
    bool stopping_{false};
    bool failing_{false};
    int failures_{0};
    bool session_doubtful_{false};     // a claim's reply was lost
    bool claims_doubtful_{false};      // and perhaps claims whose replies came
    std::vector<base::boot_time> reconcile_at_;
    std::string last_error_;
    base::boot_time last_claim_{};
    double last_claim_unix_{0};
};

}  // namespace outboxd::relay
