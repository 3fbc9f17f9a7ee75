#include "relay/endpoint_directory.hpp"

#include <algorithm>

#include "base/version.hpp"
#include "config/load.hpp"
#include "telemetry/log.hpp"
#include "wire/headers.hpp"
#include "wire/signature/sign.hpp"

namespace outboxd::relay {

namespace {

constexpr std::size_t max_direct_routes = 4096;

bool same_row(const ports::endpoint_row& a, const ports::endpoint_row& b) {
    const auto secret_texts_equal = [&] {
        return a.secrets.size() == b.secrets.size() &&
               std::equal(a.secrets.begin(), a.secrets.end(), b.secrets.begin(), [](const auto& x, const auto& y) { return x.first == y.first && x.second.has_value() == y.second.has_value(); });
    };
    return a.url == b.url && a.tenant_id == b.tenant_id && a.enabled == b.enabled && a.paused == b.paused && a.disabled_reason == b.disabled_reason && a.settings == b.settings &&
           a.managed_by == b.managed_by && secret_texts_equal();
}

// A secret whose moment of expiry moved is noticed by its own comparison, so that equal rows keep their compiled form.
bool same_expiries(const ports::endpoint_row& a, const ports::endpoint_row& b) {
    return std::none_of(a.secrets.begin(), a.secrets.end(), [](const auto& s) { return s.second.has_value(); }) &&
           std::none_of(b.secrets.begin(), b.secrets.end(), [](const auto& s) { return s.second.has_value(); });
}

}  // namespace

endpoint_directory::endpoint_directory(std::shared_ptr<const config::config> settings) : settings_(std::move(settings)), user_agent_("outboxd/" + std::string(base::version())) { compile_direct(); }

void endpoint_directory::reconfigure(std::shared_ptr<const config::config> settings) {
    settings_ = std::move(settings);
    direct_routes_.clear();
    recompile_ = true;
    compile_direct();
}

std::vector<std::string> endpoint_directory::adopt(const std::vector<ports::endpoint_row>& rows, base::boot_time now) {
    std::vector<std::string> changed;
    std::unordered_map<std::string, entry> next;
    next.reserve(rows.size());
    for (const auto& row : rows) {
        const auto old = entries_.find(row.name);
        const bool keep = !recompile_ && old != entries_.end() && same_row(old->second.row, row) && same_expiries(old->second.row, row) && now < old->second.compiled->next_expiry;
        if (keep) {
            next.emplace(row.name, std::move(old->second));
        } else {
            next.emplace(row.name, entry{row, compile(row, now), std::nullopt});
            changed.push_back(row.name);
        }
        next[row.name].failing_since = row.failing_for ? std::optional{now - *row.failing_for} : std::nullopt;
    }
    for (const auto& [name, gone] : entries_) {
        if (!next.contains(name)) changed.push_back(name);
    }
    entries_ = std::move(next);
    recompile_ = false;
    next_expiry_ = base::boot_time::max();
    largest_payload_ = settings_->defaults.max_payload;
    for (const auto& [name, e] : entries_) {
        next_expiry_ = std::min(next_expiry_, e.compiled->next_expiry);
        largest_payload_ = std::max(largest_payload_, e.compiled->settings.max_payload);
    }
    return changed;
}

endpoint_ptr endpoint_directory::find(const std::string& name) const {
    const auto it = entries_.find(name);
    return it == entries_.end() ? nullptr : it->second.compiled;
}

std::optional<base::boot_time> endpoint_directory::failing_since(const std::string& name) const {
    const auto it = entries_.find(name);
    return it == entries_.end() ? std::nullopt : it->second.failing_since;
}

std::vector<endpoint_ptr> endpoint_directory::all() const {
    std::vector<endpoint_ptr> result;
    result.reserve(entries_.size());
    for (const auto& [name, e] : entries_) result.push_back(e.compiled);
    return result;
}

ports::route endpoint_directory::route_for(const wire::url& address, const config::endpoint_settings& settings, bool from_file) const {
    ports::route route;
    route.address = address;
    route.trusted = from_file && settings_->egress.trust_config_endpoints;
    if (settings.proxy) {
        route.proxy = base::secret(*settings.proxy);
    } else {
        route.proxy = settings_->egress.proxy;
    }
    route.tls.ca_file = settings.tls.ca_file.empty() ? settings_->tls.ca_file : settings.tls.ca_file;
    route.tls.client_cert = settings.tls.client_cert.empty() ? settings_->tls.client_cert : settings.tls.client_cert;
    route.tls.client_key = settings.tls.client_key.empty() ? settings_->tls.client_key : settings.tls.client_key;
    route.tls.min_version = settings.tls.min_version == "1.3" ? settings.tls.min_version : settings_->tls.min_version;
    route.tls.pinned_spki = settings.tls.pinned_spki;
    route.tls.verify = settings.tls.verify;
    route.connect_timeout = settings.connect_timeout;
    return route;
}

endpoint_ptr endpoint_directory::compile(const ports::endpoint_row& row, base::boot_time now) const {
    auto result = std::make_shared<endpoint>();
    result->name = row.name;
    const auto refuse = [&](std::string reason) {
        result->reason = std::move(reason);
        telemetry::log_limited(telemetry::level::error, "endpoint_unusable", row.name, result->reason, {{"endpoint", std::string_view{row.name}}});
        return result;
    };
    auto settings = config::apply_settings(settings_->defaults, row.settings);
    if (!settings) return refuse("settings: " + settings.error().text);
    result->settings = std::move(*settings);
    // The file is checked for this at start; a row of the table is seen only here. Its requests could never begin: no lease would outlast them.
    if (result->settings.timeout * 2 > settings_->relay.lease) {
        return refuse("settings: timeout must be at most half of relay.lease, which is " + base::describe_duration(settings_->relay.lease));
    }
    auto address = wire::parse_url(row.url);
    if (!address) return refuse("url: " + address.error().text);
    if (auto scheme = wire::check_scheme(*address, settings_->egress.policy.allow_http); !scheme) return refuse("url: " + scheme.error().text);
    if (auto headers = wire::check_own_headers(result->settings.headers); !headers) return refuse("settings.headers: " + headers.error().text);

    auto& profile = result->profile;
    profile.method = result->settings.method;
    profile.format = result->settings.format;
    profile.key_format = result->settings.idempotency_key_format;
    profile.own_headers = result->settings.headers;
    profile.signer.scheme = result->settings.signing;
    if (profile.signer.scheme != wire::signing_scheme::none) {
        for (const auto& [text, remaining] : row.secrets) {
            if (remaining && remaining->count() <= 0) continue;
            auto key = wire::make_signing_key(profile.signer.scheme, base::secret(text));
            if (!key) return refuse("secret: " + key.error().text);
            profile.signer.keys.push_back(std::move(*key));
            if (remaining) result->next_expiry = std::min(result->next_expiry, now + *remaining);
        }
    }
    result->builder = std::make_shared<wire::request_builder>(*address, profile, user_agent_);
    result->route = std::make_shared<const ports::route>(route_for(*address, result->settings, row.managed_by == "config"));
    if (!row.enabled) {
        result->reason = row.disabled_reason.empty() ? "disabled" : "disabled: " + row.disabled_reason;
        result->operator_stopped = true;
        return result;
    }
    if (row.paused) {
        result->reason = "paused";
        result->operator_stopped = true;
        return result;
    }
    result->usable = true;
    return result;
}

void endpoint_directory::compile_direct() {
    auto result = std::make_shared<endpoint>();
    result->settings = settings_->defaults;
    auto& profile = result->profile;
    profile.method = result->settings.method;
    profile.format = result->settings.format;
    profile.key_format = result->settings.idempotency_key_format;
    profile.own_headers = result->settings.headers;
    profile.signer.scheme = result->settings.signing;
    for (const auto& text : settings_->default_secrets) {
        if (auto key = wire::make_signing_key(profile.signer.scheme, text)) profile.signer.keys.push_back(std::move(*key));
    }
    result->usable = true;
    direct_ = result;
    largest_payload_ = std::max(largest_payload_, settings_->defaults.max_payload);
}

base::result<endpoint_directory::direct_target> endpoint_directory::direct_to(const std::string& url) {
    auto address = wire::parse_url(url);
    if (!address) return address.error();
    if (auto scheme = wire::check_scheme(*address, settings_->egress.policy.allow_http); !scheme) return scheme.error();
    auto& shared = direct_routes_[address->origin];
    if (!shared) {
        if (direct_routes_.size() > max_direct_routes) {
            direct_routes_.clear();
            return direct_to(url);
        }
        shared = std::make_shared<const ports::route>(route_for(*address, direct_->settings, false));
    }
    return direct_target{std::make_shared<wire::request_builder>(*address, direct_->profile, user_agent_), shared};
}

}  // namespace outboxd::relay
