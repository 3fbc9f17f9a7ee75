#include "https/connection_pool.hpp"

#include <algorithm>
#include <functional>
#include <string_view>

namespace outboxd::https {

std::size_t connection_pool::route_hash::operator()(const std::shared_ptr<const ports::route>& r) const noexcept {
    return std::hash<std::string_view>{}(r->address.host) ^ (static_cast<std::size_t>(r->address.port) * 0x9E3779B97F4A7C15ULL);
}

bool connection_pool::route_equal::operator()(const std::shared_ptr<const ports::route>& a, const std::shared_ptr<const ports::route>& b) const noexcept {
    if (a == b) return true;
    return a->address.port == b->address.port && a->address.tls == b->address.tls && a->trusted == b->trusted &&
           a->address.host_is_address == b->address.host_is_address && a->address.host == b->address.host && a->proxy.reveal() == b->proxy.reveal() &&
           a->tls == b->tls;
}

std::shared_ptr<route_pool> connection_pool::of(const std::shared_ptr<const ports::route>& where, base::boot_time now) {
    auto found = routes_.find(where);
    if (found == routes_.end()) {
        if (routes_.size() >= routes_limit) forget_unused(now);
        auto made = std::make_shared<route_pool>();
        made->where = where;
        found = routes_.emplace(where, std::move(made)).first;
    }
    found->second->last_used = now;
    return found->second;
}

void connection_pool::forget_unused(base::boot_time now) {
    std::erase_if(routes_, [&](const auto& entry) {
        return entry.second->idle.empty() && entry.second.use_count() == 1 && now - entry.second->last_used > std::chrono::minutes{5};
    });
}

std::shared_ptr<connection> connection_pool::take(route_pool& route, base::boot_time now) {
    while (!route.idle.empty()) {
        std::shared_ptr<connection> which = std::move(route.idle.back());
        route.idle.pop_back();
        which->unlink();
        --count_;
        which->wake_up();
        if (which->open() && which->idle_until() > now) return which;
        which->close();
    }
    return nullptr;
}

void connection_pool::give(route_pool& route, std::shared_ptr<connection> which, base::boot_time now, int hint) {
    base::milliseconds idle_for = limits_.idle_for;
    if (hint >= 0) idle_for = std::min(idle_for, base::milliseconds{std::max(0, hint - 1) * 1000});
    if (route.retired || idle_for.count() <= 0 || limits_.idle_per_route == 0) return which->close();
    if (route.idle.size() >= limits_.idle_per_route) return which->close();
    if (count_ >= limits_.idle_in_all && !by_age_.empty()) drop(by_age_.front());
    which->rest(this, now + idle_for, &route);
    by_age_.push_back(*which);
    route.idle.push_back(std::move(which));
    ++count_;
}

void connection_pool::drop(connection& which) {
    which.wake_up();
    which.close();
    idle_ended(which);
}

void connection_pool::idle_ended(connection& which) {
    auto& route = *static_cast<route_pool*>(which.home());
    which.unlink();
    --count_;
    const auto found = std::find_if(route.idle.rbegin(), route.idle.rend(), [&](const auto& one) { return one.get() == &which; });
    if (found != route.idle.rend()) route.idle.erase(std::next(found).base());
}

void connection_pool::close_idle() {
    while (!by_age_.empty()) drop(by_age_.front());
}

void connection_pool::forget_all() {
    close_idle();
    for (auto& [where, route] : routes_) route->retired = true;
    routes_.clear();
}

std::optional<base::boot_time> connection_pool::sweep(base::boot_time now) {
    std::optional<base::boot_time> next;
    for (auto it = by_age_.begin(); it != by_age_.end();) {
        connection& one = *it++;
        if (one.idle_until() <= now)
            drop(one);
        else if (!next || one.idle_until() < *next)
            next = one.idle_until();
    }
    forget_unused(now);
    return next;
}

}  // namespace outboxd::https
