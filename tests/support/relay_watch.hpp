// Role: watches relays that run on one fake_database and says which promise one of them broke: the invariants of the fault sweep and of the simulation.
// Promise: changes nothing; knows what each relay can know only from the replies that the relay really got.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/fake_database.hpp"
#include "support/fake_sender.hpp"

namespace outboxd::testkit {

class relay_watch {
public:
    struct rules {
        base::milliseconds lease{20'000};
        int max_attempts{8};
        int max_rescues{10};
    };
    using clock = std::function<base::boot_time()>;
    relay_watch(fake_database& database, clock now, rules r);

    // What applications did: the event is committed and is for these lanes.
    void committed(std::int64_t event, const fake_event& e, std::set<std::string> lanes);
    // The server's clock was moved; leases and moments of before mean something else now.
    void server_clock_moved();

    // What process `p` learned from the database.
    void registered(int p, std::int64_t relay, base::boot_time asked);
    void beaten(int p, bool alive, base::boot_time asked);
    void epoch_told(std::int64_t relay, int epoch) { epochs_[relay] = epoch; }
    void asks_claim(const ports::claim_request& request);
    void settled(int p, std::int64_t relay, const std::vector<lifecycle::settlement>& batch, const std::vector<std::int64_t>* changed);
    void circuit_shut(int p, const std::string& lane);
    void circuits_loaded(int p, const std::vector<ports::circuit_row>& rows);
    void probe_granted(int p, const std::string& lane);
    void probe_returned(int p, const std::string& lane);
    void endpoints_loaded(int p, const std::vector<ports::endpoint_row>& rows);
    void died(int p);

    // What went over the wire.
    void send_begins(int p, const sent_request& r);
    void send_ends(int p, const sent_request& r, const ports::send_reply& reply);

    /// Prints the life of one event to stdout.
    void trace(std::int64_t event) { traced_ = event; }

    // Nothing is left over: everything committed and due before `before` has ended, but for what waits for an operator.
    void check_all_ended(base::wall_time before);
    // No row is claimed in the name of a relay that is gone.
    void check_claims();

    [[nodiscard]] const std::vector<std::string>& violations() const noexcept { return violations_; }
    [[nodiscard]] std::string report() const;
    [[nodiscard]] std::int64_t sends() const noexcept { return sends_; }
    [[nodiscard]] std::int64_t ended() const noexcept { return ended_; }
    [[nodiscard]] std::int64_t duplicates() const noexcept { return duplicates_; }
    [[nodiscard]] std::int64_t lost_claims() const noexcept { return lost_claims_; }

private:
    using target = std::pair<std::int64_t, std::string>;  // event, lane
    struct fate {
        std::int64_t delivery{0};
        int good_answers{0};
        int counted{0};
        std::string outcome;       // the final one
        std::int64_t ended_by{0};  // relay
        base::boot_time on_wire_until{};
        int on_wire_of{-1};
    };
    struct source {
        std::string event_id;
        std::string body;
        std::set<std::string> lanes;
        int max_attempts{0};
        base::wall_time committed_at{};
    };
    struct process {
        std::int64_t relay{0};
        base::boot_time lease_until{};
        base::boot_time beat_asked{};
        std::map<std::string, int> shut;  // lane -> probes granted and not used
        std::set<std::string> unusable;
        std::set<std::int64_t> uncertain;  // settlements of which no reply came
    };

    void tell(std::int64_t event, const std::string& what) const;
    void broke(const std::string& rule, const std::string& what);
    void claims(const fake_delivery& row, const ports::claim_request& request);
    void history(const fake_delivery& row, const fake_attempt& line);
    void check_lost(const fake_delivery& row, const fake_attempt& line);
    void check_content(const target& t, const sent_request& r);
    void check_rights(int p, const target& t, const fate& f, const sent_request& r);
    void check_row(const target& t, const fake_delivery& row, const sent_request& r);
    void check_circuit(int p, const target& t);
    void check_one_ended(const target& t, base::wall_time before);
    [[nodiscard]] bool clock_excuses(base::boot_time since) const { return clock_moved_ && *clock_moved_ >= since; }
    [[nodiscard]] int limit_of(std::int64_t event) const;

    fake_database& database_;
    clock now_;
    rules rules_;
    std::map<std::int64_t, source> sources_;
    std::map<target, fate> fates_;
    std::map<int, process> processes_;
    std::map<std::int64_t, int> process_of_;  // relay -> process
    std::map<std::int64_t, int> epochs_;      // relay -> the session number that it was told
    std::map<std::int64_t, base::boot_time> hidden_;  // delivery -> since when bounds pass over it
    std::optional<base::boot_time> clock_moved_;
    std::int64_t traced_{0};
    std::vector<std::string> violations_;
    std::int64_t sends_{0}, ended_{0}, duplicates_{0}, lost_claims_{0};
};

}  // namespace outboxd::testkit
