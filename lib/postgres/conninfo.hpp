// The connection string taken apart: whom to call, with what, and which words must never be shown. Floor 4 (postgres); libpq does the parsing, nothing is connected or looked up here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/secret.hpp"
#include "base/time.hpp"

namespace outboxd::postgres {

struct database_host {
    std::string name;     // host name, address or socket directory; empty: libpq's default socket
    std::string address;  // hostaddr, when the string gives one
    std::string port;
    [[nodiscard]] bool needs_lookup() const noexcept;  // a name that only DNS (or the hosts file) can turn into an address
};

struct conninfo {
    std::vector<std::pair<std::string, std::string>> options;  // everything but hosts and target_session_attrs; holds the password
    std::vector<database_host> hosts;                          // at least one, in the order of the string
    std::string session_attrs;                                 // target_session_attrs; `any` by default
    std::optional<base::milliseconds> connect_timeout;         // per host and address
    std::string database;
    std::string user;
    std::vector<base::secret> secrets;                         // password, sslpassword

    // host h, port p, database d, user u
    [[nodiscard]] std::string describe(const database_host& h) const;
    [[nodiscard]] std::string describe() const;                // all hosts
    // Text of libpq or the server without any of the secrets, on one line, at most 300 bytes.
    [[nodiscard]] std::string scrub(std::string_view text) const;
};

// PG* variables, service and password files hold as in libpq. Error bad_config: says what is wrong with the form, repeats nothing of a string that may hold a misplaced password.
[[nodiscard]] base::result<conninfo> read_conninfo(std::string_view url);

// The string in force: the file's content when there is a file (one trailing line end dropped), else the text.
[[nodiscard]] base::result<base::secret> current_url(const base::secret& url, const std::string& url_file);

}  // namespace outboxd::postgres
