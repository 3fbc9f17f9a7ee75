// version: what is running, down to the libraries that matter when a fault is reported.
#include <libpq-fe.h>
#include <openssl/crypto.h>
#include <CLI/Version.hpp>
#include <boost/version.hpp>
#include <iostream>

#include "admin/json_writer.hpp"
#include "base/version.hpp"
#include "commands/command.hpp"
#include "commands/output.hpp"

namespace outboxd::daemon {
namespace {

std::string libpq_version() {
    const int v = PQlibVersion();  // 150004 is 15.4
    return std::to_string(v / 10000) + "." + std::to_string(v % 10000);
}

std::string boost_version() {
    return std::to_string(BOOST_VERSION / 100000) + "." + std::to_string(BOOST_VERSION / 100 % 1000) + "." + std::to_string(BOOST_VERSION % 100);
}

int version(const arguments& args) {
    const std::string openssl = OpenSSL_version(OPENSSL_VERSION_STRING);
    if (args.json()) {
        admin::json_writer w;
        w.begin_object().member("version", base::version()).member("revision", base::git_revision()).key("libraries").begin_object();
        w.member("boost", boost_version())
            .member("libpq", libpq_version())
            .member("openssl", openssl)
            .member("cli11", CLI11_VERSION)
            .member("compiler", __VERSION__);
        w.end_object().end_object();
        print_json(w.text());
        return exit_done;
    }
    std::cout << "outboxd " << base::version() << " (revision " << base::git_revision() << ")\n"
              << "boost " << boost_version() << ", libpq " << libpq_version() << ", openssl " << openssl << ", cli11 " << CLI11_VERSION << ", compiler "
              << __VERSION__ << "\n";
    return exit_done;
}

}  // namespace

std::vector<command> version_commands() {
    command c;
    c.name = "version";
    c.summary = "version, git revision, library versions";
    c.examples = {"outboxd version", "outboxd version --json"};
    c.run = version;
    c.database = false;
    return {c};
}

}  // namespace outboxd::daemon
