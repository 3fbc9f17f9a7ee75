#include "config/validate.hpp"

#include <algorithm>
#include <map>

#include "config/addresses.hpp"
#include "config/scalars.hpp"
#include "config/settings.hpp"
#include "wire/signature/signing_key.hpp"
#include "wire/url.hpp"

namespace outboxd::config {
namespace {

using wire::signing_scheme;

std::string path_of(std::size_t endpoint) { return "endpoints[" + std::to_string(endpoint) + "]"; }

// The line of the key where it is written, else of what holds it.
int line_near(const reader& read, const std::string& section, const std::string& key_name) {
    for (std::string shown = section + "." + key_name; !shown.empty(); shown.resize(std::min(shown.rfind('.'), shown.size()))) {
        if (const int line = read.line_of(shown); line != 0) return line;
        if (shown.rfind('.') == std::string::npos) break;
    }
    return read.line_of(section);
}

void check_secrets(const std::vector<base::secret>& secrets, signing_scheme scheme, const std::string& section, reader& read) {
    if (scheme == signing_scheme::none) return;
    const bool raw = scheme == signing_scheme::github || scheme == signing_scheme::stripe;
    for (std::size_t i = 0; i < secrets.size(); ++i) {
        if (secrets[i].empty()) continue;  // it could not be had, which is reported already
        const auto parsed = raw ? wire::signing_key::raw_hmac(secrets[i]) : wire::signing_key::parse(secrets[i]);
        if (parsed) continue;
        const std::string shown = section + ".secrets[" + std::to_string(i) + "]";
        read.report(line_near(read, section, "secrets[" + std::to_string(i) + "]"), shown, parsed.error().text);
    }
}

// One of these keys of the section is written. An endpoint is judged by what it says itself: a conflict that it inherits is reported at `defaults`.
bool judged(const reader& read, const std::string& section, std::initializer_list<const char*> words) {
    return section == "defaults" || std::any_of(words.begin(), words.end(), [&](const char* word) { return read.line_of(section + "." + word) != 0; });
}

// Reports a conflict between a key of the section and one of `relay` at the one that is written.
void report_against_relay(reader& read, const std::string& section, const std::string& own, const std::string& relay_key, const std::string& text) {
    const bool relay_written_alone = read.line_of(section + "." + own) == 0 && read.line_of(relay_key) != 0;
    if (relay_written_alone) read.report(read.line_of(relay_key), relay_key, text);
    else read.report(line_near(read, section, own), section + "." + own, text);
}

// What defaults and each endpoint have in common.
void check_settings(const config& c, const endpoint_settings& settings, const std::string& section, reader& read) {
    if (judged(read, section, {"timeout", "connect_timeout", "circuit", "tls"})) {
        for (const conflict& found : conflicts_within(settings)) {
            // Certificates are judged by what is written where: check_tls_pair, check_own_tls_pair.
            if (!found.key.starts_with("tls.")) read.report(line_near(read, section, found.key), section + "." + found.key, found.text);
        }
    }
    if (judged(read, section, {"max_payload"}) && settings.max_payload > c.relay.max_in_flight_bytes) {
        report_against_relay(read, section, "max_payload", "relay.max_in_flight_bytes",
                             "max_payload must not be more than relay.max_in_flight_bytes: " + format_size(settings.max_payload) + " against " + format_size(c.relay.max_in_flight_bytes));
    }
    if (judged(read, section, {"timeout"}) && settings.timeout * 2 > c.relay.lease) {
        report_against_relay(read, section, "timeout", "relay.lease",
                             "relay.lease must be at least twice the longest timeout: a lease of " + base::format_duration(c.relay.lease) + " against " + base::format_duration(settings.timeout));
    }
}

// A certificate and its key belong together: one of the endpoint's own beside one that is inherited does not.
void check_own_tls_pair(const tls_settings& tls, const std::string& section, reader& read) {
    const int cert = read.line_of(section + ".tls.client_cert");
    const int key_line = read.line_of(section + ".tls.client_key");
    if (cert == 0 && key_line == 0) return;
    const bool half = tls.client_cert.empty() != tls.client_key.empty();
    const bool mixed = !tls.client_cert.empty() && !tls.client_key.empty() && (cert == 0 || key_line == 0);
    if (!half && !mixed) return;
    const bool name_cert = cert != 0 && !tls.client_cert.empty();
    read.report(name_cert ? cert : std::max(cert, key_line), section + (name_cert ? ".tls.client_cert" : ".tls.client_key"),
                std::string("needs ") + (name_cert ? "client_key" : "client_cert") + " of this endpoint beside it");
}

void check_endpoint(const config& c, std::size_t index, reader& read) {
    const endpoint_config& e = c.endpoints[index];
    const std::string section = path_of(index);
    read.set_subject(e.name.empty() ? std::string{} : "endpoint " + e.name + ": ");
    check_settings(c, e.settings, section, read);
    check_own_tls_pair(e.settings.tls, section, read);
    if (const auto address = wire::parse_url(e.url); address && !wire::check_scheme(*address, c.egress.policy.allow_http)) {
        read.report(line_near(read, section, "url"), section + ".url", "http:// addresses need egress.allow_http: true");
    }
    check_secrets(e.secrets, e.settings.signing, section, read);
    if (e.secrets.empty() && e.settings.signing != signing_scheme::none) {
        read.report(line_near(read, section, "name"), section + ".secrets", "no secrets: its requests are sent unsigned (signing: none says that this is meant)", true);
    }
    if (!e.settings.tls.verify) read.report(line_near(read, section, "tls.verify"), section + ".tls.verify", "the server's certificate is not checked: for tests only", true);
    read.set_subject({});
}

void check_names(const config& c, reader& read) {
    std::map<std::string, std::size_t> first;
    for (std::size_t i = 0; i < c.endpoints.size(); ++i) {
        if (c.endpoints[i].name.empty()) continue;
        const auto [known, fresh] = first.emplace(c.endpoints[i].name, i);
        if (fresh) continue;
        const int line = line_near(read, path_of(known->second), "name");
        read.report(line_near(read, path_of(i), "name"), path_of(i) + ".name", "the name " + c.endpoints[i].name + " is taken by " + path_of(known->second) + " in line " + std::to_string(line));
    }
}

void check_tls_pair(const config& c, reader& read) {
    if (c.tls.client_cert.empty() == c.tls.client_key.empty()) return;
    const std::string present = c.tls.client_key.empty() ? "client_cert" : "client_key";
    read.report(line_near(read, "tls", present), "tls." + present, std::string("needs ") + (c.tls.client_key.empty() ? "client_key" : "client_cert") + " beside it");
}

void check_admin(const config& c, reader& read) {
    const auto address = parse_listen(c.admin.listen);
    if (!address || address->loopback || !c.admin.token.empty() || read.line_of("admin.token") != 0) return;
    read.report(line_near(read, "admin", "listen"), "admin.listen", "is no loopback address, so admin.token is required");
}

}  // namespace

void validate(const config& c, reader& read) {
    check_settings(c, c.defaults, "defaults", read);
    check_secrets(c.default_secrets, c.defaults.signing, "defaults", read);
    check_tls_pair(c, read);
    check_admin(c, read);
    check_names(c, read);
    for (std::size_t i = 0; i < c.endpoints.size(); ++i) check_endpoint(c, i, read);
}

}  // namespace outboxd::config
