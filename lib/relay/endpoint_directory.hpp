// The endpoints as the relay uses them: rows of outbox.endpoint compiled once, kept while nothing changes. Floor 4.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "config/config.hpp"
#include "ports/delivery_store.hpp"
#include "ports/https_sender.hpp"
#include "wire/request.hpp"

namespace outboxd::relay {

// One endpoint ready to send to, or the reason why it is not.
struct endpoint {
    std::string name;             // empty: the defaults, for direct URLs
    bool usable{false};           // rows may be claimed and sent
    std::string reason;           // why not usable: `paused`, `disabled: ...`, `settings: ...`
    bool operator_stopped{false}; // paused or disabled: quiet; a bad row is logged
    config::endpoint_settings settings;
    std::shared_ptr<const wire::request_builder> builder;  // null for direct URLs
    std::shared_ptr<const ports::route> route;             // null for direct URLs
    wire::request_profile profile;                         // direct URLs build their own builder from it
    base::boot_time next_expiry{base::boot_time::max()};   // when a secret of it ends
};
using endpoint_ptr = std::shared_ptr<const endpoint>;

class endpoint_directory {
public:
    explicit endpoint_directory(std::shared_ptr<const config::config> settings);
    // New configuration (SIGHUP): everything is compiled anew at the next adopt().
    void reconfigure(std::shared_ptr<const config::config> settings);
    // Rows from the database. Returns the names whose endpoint is new, changed or gone.
    [[nodiscard]] std::vector<std::string> adopt(const std::vector<ports::endpoint_row>& rows, base::boot_time now);
    [[nodiscard]] endpoint_ptr find(const std::string& name) const;
    [[nodiscard]] endpoint_ptr direct() const { return direct_; }
    [[nodiscard]] std::vector<endpoint_ptr> all() const;
    [[nodiscard]] base::boot_time next_expiry() const noexcept { return next_expiry_; }
    // Since when the database says that it fails, on the local clock.
    [[nodiscard]] std::optional<base::boot_time> failing_since(const std::string& name) const;
    // The largest body any endpoint takes: what a claim fetches.
    [[nodiscard]] std::int64_t largest_payload() const noexcept { return largest_payload_; }
    // A direct URL's builder and route; routes are shared per origin. Error: the sentence for the attempt.
    struct direct_target {
        std::shared_ptr<const wire::request_builder> builder;
        std::shared_ptr<const ports::route> route;
    };
    [[nodiscard]] base::result<direct_target> direct_to(const std::string& url);

private:
    struct entry {
        ports::endpoint_row row;
        endpoint_ptr compiled;
        std::optional<base::boot_time> failing_since;
    };
    [[nodiscard]] endpoint_ptr compile(const ports::endpoint_row& row, base::boot_time now) const;
    [[nodiscard]] ports::route route_for(const wire::url& address, const config::endpoint_settings& settings, bool from_file) const;
    void compile_direct();

    std::shared_ptr<const config::config> settings_;
    std::string user_agent_;
    std::unordered_map<std::string, entry> entries_;
    std::unordered_map<std::string, std::shared_ptr<const ports::route>> direct_routes_;
    endpoint_ptr direct_;
    base::boot_time next_expiry_{base::boot_time::max()};
    std::int64_t largest_payload_{0};
    bool recompile_{false};
};

}  // namespace outboxd::relay
