#include "postgres/conninfo.hpp"

#include <arpa/inet.h>
#include <libpq-fe.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>

#include "base/encoding.hpp"

namespace outboxd::postgres {

namespace {

struct options_deleter {
    void operator()(PQconninfoOption* o) const noexcept { PQconninfoFree(o); }
};
using options_ptr = std::unique_ptr<PQconninfoOption, options_deleter>;
struct connection_deleter {
    void operator()(PGconn* c) const noexcept { PQfinish(c); }
};

constexpr std::string_view probe_value = "outboxd-reads-options";

base::error unreadable(std::string_view why) {
    return base::make_error(base::errc::bad_config, "the database connection string cannot be read: " + std::string{why} +
                                                        "; accepted are postgresql://user:password@host:port/database and keyword=value pairs, with special characters of a "
                                                        "password in a URI percent-encoded (/ as %2F, @ as %40)");
}

std::string value_of(const PQconninfoOption* options, std::string_view keyword) {
    for (const auto* o = options; o != nullptr && o->keyword != nullptr; ++o) {
        if (keyword == o->keyword) return o->val == nullptr ? std::string{} : std::string{o->val};
    }
    return {};
}

std::vector<std::string> split(const std::string& list) {
    std::vector<std::string> parts;
    std::size_t from = 0;
    for (;;) {
        const auto comma = list.find(',', from);
        parts.push_back(list.substr(from, comma - from));
        if (comma == std::string::npos) return parts;
        from = comma + 1;
    }
}

bool is_uri(std::string_view url) { return url.starts_with("postgresql://") || url.starts_with("postgres://"); }

// A raw `/` or `@` in a password moves parts of it into host, port or database, which errors would then show.
bool password_may_be_misplaced(std::string_view url) {
    if (!is_uri(url)) return false;
    const auto rest = url.substr(url.find("://") + 3);
    const auto slash = rest.find('/');
    if (slash == std::string_view::npos) return false;
    const auto path = rest.substr(slash, rest.find('?', slash) == std::string_view::npos ? std::string_view::npos : rest.find('?', slash) - slash);
    return path.find('@') != std::string_view::npos;
}

bool good_port(const std::string& port) {
    int value = 0;
    const auto [end, ec] = std::from_chars(port.data(), port.data() + port.size(), value);
    return port.empty() || (ec == std::errc{} && end == port.data() + port.size() && value >= 1 && value <= 65535);
}

bool good_host(const std::string& host) {
    if (host.starts_with('/') || host.starts_with('@')) return true;
    return std::all_of(host.begin(), host.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || c == ':' || c == '%'; });
}

base::result<std::vector<database_host>> hosts_of(const std::string& host, const std::string& hostaddr, const std::string& port) {
    const auto names = split(host);
    const auto addresses = split(hostaddr);
    const auto ports = split(port);
    const auto n = hostaddr.empty() ? names.size() : addresses.size();
    if (!hostaddr.empty() && !host.empty() && names.size() != n) return unreadable("host and hostaddr list different numbers of hosts");
    if (ports.size() != 1 && ports.size() != n) return unreadable("host and port list different numbers of hosts");
    std::vector<database_host> hosts;
    for (std::size_t i = 0; i < n; ++i) {
        database_host h{host.empty() ? std::string{} : names[i], hostaddr.empty() ? std::string{} : addresses[i], ports.size() == 1 ? ports[0] : ports[i]};
        if (!good_port(h.port)) return unreadable("the port is no number from 1 to 65535");
        if (!good_host(h.name) || !good_host(h.address)) return unreadable("the host name holds characters that no host name has");
        if (h.port.empty()) h.port = "5432";
        hosts.push_back(std::move(h));
    }
    return hosts;
}

// libpq fills in PG* variables, service and password files only when it connects. So it is asked to connect with one option that it must refuse, after all others were read and before anything is
// looked up or opened.
std::unique_ptr<PGconn, connection_deleter> read_by_libpq(const std::string& url) {
    const char* keywords[] = {"dbname", "target_session_attrs", nullptr};
    const char* values[] = {url.c_str(), probe_value.data(), nullptr};
    return std::unique_ptr<PGconn, connection_deleter>{PQconnectStartParams(keywords, values, 1)};
}

std::string asked_session_attrs(const PQconninfoOption* given) {
    auto attrs = value_of(given, "target_session_attrs");
    if (attrs.empty()) {
        const char* variable = std::getenv("PGTARGETSESSIONATTRS");
        if (variable != nullptr) attrs = variable;
    }
    return attrs.empty() ? "any" : attrs;
}

void keep_options(conninfo& info, const PQconninfoOption* all) {
    for (const auto* o = all; o->keyword != nullptr; ++o) {
        const std::string_view keyword{o->keyword};
        if (o->val == nullptr || *o->val == '\0') continue;
        if (keyword == "host" || keyword == "hostaddr" || keyword == "port" || keyword == "target_session_attrs" || keyword == "client_encoding" || keyword == "load_balance_hosts") continue;
        if (keyword == "password" || keyword == "sslpassword") info.secrets.emplace_back(std::string{o->val});
        info.options.emplace_back(o->keyword, o->val);
    }
    info.options.emplace_back("client_encoding", "UTF8");
}

void keep_connect_timeout(conninfo& info, const std::string& text) {
    int whole_seconds = 0;
    std::from_chars(text.data(), text.data() + text.size(), whole_seconds);
    if (whole_seconds > 0) info.connect_timeout = base::seconds{std::max(whole_seconds, 2)};  // as libpq: at least two
}

}  // namespace

bool database_host::needs_lookup() const noexcept {
    if (!address.empty() || name.empty() || name.starts_with('/') || name.starts_with('@')) return false;
    in6_addr any{};
    return inet_pton(AF_INET, name.c_str(), &any) != 1 && inet_pton(AF_INET6, name.c_str(), &any) != 1;
}

std::string conninfo::describe(const database_host& h) const {
    const auto& where = !h.name.empty() ? h.name : !h.address.empty() ? h.address : std::string{"(local socket)"};
    return "host " + base::printable(where, 255) + ", port " + h.port + ", database " + base::printable(database, 128) + ", user " + base::printable(user, 128);
}

std::string conninfo::describe() const {
    if (hosts.size() == 1) return describe(hosts[0]);
    std::string names;
    for (const auto& h : hosts) names += (names.empty() ? "" : ", ") + (h.name.empty() ? h.address : h.name) + ":" + h.port;
    return "hosts " + base::printable(names, 512) + ", database " + base::printable(database, 128) + ", user " + base::printable(user, 128);
}

std::string conninfo::scrub(std::string_view text) const {
    std::string clean{text};
    for (const auto& s : secrets) {
        for (auto at = clean.find(s.reveal()); !s.empty() && at != std::string::npos; at = clean.find(s.reveal(), at + 3)) clean.replace(at, s.reveal().size(), "***");
    }
    std::replace(clean.begin(), clean.end(), '\n', ' ');
    while (!clean.empty() && clean.back() == ' ') clean.pop_back();
    return base::printable(clean, 300);
}

base::result<conninfo> read_conninfo(std::string_view url) {
    const std::string text{url};
    if (text.find('\0') != std::string::npos) return unreadable("it holds a NUL byte");
    if (!text.empty() && !is_uri(text) && text.find('=') == std::string::npos) return unreadable("it is neither a URI nor keyword=value pairs");
    if (password_may_be_misplaced(text)) return unreadable("an @ stands behind the first /");
    const options_ptr given{PQconninfoParse(text.c_str(), nullptr)};  // its own error text would repeat parts of the string
    if (!given) return unreadable("its form is wrong");
    const auto shape = hosts_of(value_of(given.get(), "host"), value_of(given.get(), "hostaddr"), value_of(given.get(), "port"));
    if (!shape) return shape.error();

    const auto dry = read_by_libpq(text);
    if (!dry) return base::make_error(base::errc::internal, "no memory for a database connection");
    const options_ptr all{PQconninfo(dry.get())};
    if (!all) return base::make_error(base::errc::internal, "no memory for a database connection");
    conninfo info;
    keep_options(info, all.get());
    const std::string said{PQerrorMessage(dry.get())};
    if (said.find(probe_value) == std::string::npos) return base::make_error(base::errc::bad_config, "the database connection string is refused by libpq: " + info.scrub(said));
    auto hosts = hosts_of(value_of(all.get(), "host"), value_of(all.get(), "hostaddr"), value_of(all.get(), "port"));
    if (!hosts) return hosts.error();
    info.hosts = std::move(*hosts);
    info.session_attrs = asked_session_attrs(given.get());
    info.user = value_of(all.get(), "user");
    info.database = value_of(all.get(), "dbname");
    if (info.database.empty()) info.database = info.user;
    keep_connect_timeout(info, value_of(all.get(), "connect_timeout"));
    return info;
}

base::result<base::secret> current_url(const base::secret& url, const std::string& url_file) {
    if (url_file.empty()) return url;
    std::ifstream file(url_file, std::ios::binary);
    std::ostringstream content;
    if (file) content << file.rdbuf();
    if (!file) return base::make_error(base::errc::bad_config, "the file with the database connection string cannot be read: " + base::printable(url_file, 255));
    auto text = std::move(content).str();
    if (text.ends_with('\n')) text.pop_back();
    if (text.ends_with('\r')) text.pop_back();
    return base::secret{std::move(text)};
}

}  // namespace outboxd::postgres
