#include "https/proxy.hpp"

#include <openssl/crypto.h>

#include <algorithm>
#include <charconv>

#include "base/encoding.hpp"
#include "wire/address_policy.hpp"

namespace outboxd::https {

namespace {

base::error bad_proxy(std::string_view why) {
    return base::make_error(base::errc::bad_config, "egress.proxy: " + std::string(why) + "; expected http://user:password@host:port");
}

int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

bool percent_decode(std::string_view text, std::string& out) {
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            out += text[i];
            continue;
        }
        if (i + 2 >= text.size() || hex_value(text[i + 1]) < 0 || hex_value(text[i + 2]) < 0) return false;
        out += static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
        i += 2;
    }
    return true;
}

bool covers(const wire::egress_rule& rule, const wire::ip_address& address) {
    if (!rule.network || rule.network->v6 != address.v6) return false;
    for (int bit = 0; bit < rule.prefix; ++bit) {
        const auto byte = static_cast<std::size_t>(bit / 8);
        if (((rule.network->bytes[byte] ^ address.bytes[byte]) >> (7 - bit % 8) & 1) != 0) return false;
    }
    return true;
}

bool is_below(std::string_view host, std::string_view suffix) {
    return host.size() > suffix.size() && host.ends_with(suffix) && host[host.size() - suffix.size() - 1] == '.';
}

}  // namespace

base::result<proxy_address> parse_proxy(std::string_view url) {
    constexpr std::string_view scheme = "http://";
    if (url.starts_with(scheme))
        url.remove_prefix(scheme.size());
    else if (url.find("://") != std::string_view::npos)
        return bad_proxy("only http:// proxies are supported");
    proxy_address proxy;
    const std::size_t at = url.rfind('@');
    if (at != std::string_view::npos) {
        std::string plain;
        const bool fine = percent_decode(url.substr(0, at), plain);
        if (plain.find(':') == std::string::npos) plain += ':';
        std::string encoded = base::base64_encode(plain);
        proxy.credentials = base::secret("Basic " + encoded);
        OPENSSL_cleanse(plain.data(), plain.size());
        OPENSSL_cleanse(encoded.data(), encoded.size());
        if (!fine) return bad_proxy("user and password must be percent-encoded");
        url.remove_prefix(at + 1);
    }
    url = url.substr(0, url.find_first_of("/?#"));
    // Host and port by the same rules as an endpoint's URL.
    const auto parsed = wire::parse_url("http://" + std::string(url));
    if (!parsed) return bad_proxy("the host is not valid");
    proxy.host = parsed->host;
    proxy.host_is_address = parsed->host_is_address;
    const std::size_t bracket = url.rfind(']');
    const bool has_port = url.find(':', bracket == std::string_view::npos ? 0 : bracket) != std::string_view::npos;
    proxy.port = has_port ? parsed->port : std::uint16_t{3128};
    return proxy;
}

bool goes_past_proxy(const std::vector<std::string>& no_proxy, const wire::url& target) {
    const auto address = target.host_is_address ? wire::parse_ip(target.host) : std::nullopt;
    return std::any_of(no_proxy.begin(), no_proxy.end(), [&](const std::string& entry) {
        if (entry == "*") return true;
        std::string_view text = entry;
        const bool dotted = text.starts_with(".");
        const auto rule = wire::parse_egress_rule(dotted ? "*" + entry : entry);
        if (!rule || (rule->port != 0 && rule->port != target.port)) return false;
        if (rule->network) return address && covers(*rule, *address);
        if (target.host_is_address) return false;
        // As curl and others do, `example.com` means the names below it too.
        std::string_view host = rule->host;
        if (host.starts_with("*.")) host.remove_prefix(2);
        if (host.starts_with(".")) host.remove_prefix(1);
        return target.host == host || is_below(target.host, host);
    });
}

std::string host_and_port(const wire::url& target) {
    const bool v6 = target.host_is_address && target.host.find(':') != std::string::npos;
    return (v6 ? "[" + target.host + "]" : target.host) + ":" + std::to_string(target.port);
}

std::string connect_head(const wire::url& target, const proxy_address& proxy) {
    const std::string authority = host_and_port(target);
    std::string head = "CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\nUser-Agent: outboxd\r\n";
    if (!proxy.credentials.empty()) head.append("Proxy-Authorization: ").append(proxy.credentials.reveal()).append("\r\n");
    return head + "\r\n";
}

}  // namespace outboxd::https
