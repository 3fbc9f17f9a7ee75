#include "postgres/conninfo.hpp"

#include <algorithm>

#include "support/catch.hpp"
#include "support/results.hpp"

using namespace outboxd;
using namespace std::chrono_literals;
using testkit::good;
using testkit::refused;

namespace {

std::string option(const postgres::conninfo& info, std::string_view keyword) {
    const auto hit = std::find_if(info.options.begin(), info.options.end(), [&](const auto& o) { return o.first == keyword; });
    return hit == info.options.end() ? std::string{} : hit->second;
}

}  // namespace

TEST_CASE("a URI with several hosts comes apart in order, other options pass through", "[postgres]") {
    const auto info = postgres::read_conninfo("postgresql://app:s%2Fecret@one,10.0.0.2:6432,[::1]:7/db?sslmode=require&target_session_attrs=read-write&connect_timeout=3&application_name=mine");
    REQUIRE(good(info));
    REQUIRE(info->hosts.size() == 3);
    CHECK(info->hosts[0].name == "one");
    CHECK(info->hosts[0].port == "5432");
    CHECK(info->hosts[0].needs_lookup());
    CHECK(info->hosts[1].port == "6432");
    CHECK(!info->hosts[1].needs_lookup());
    CHECK(info->hosts[2].name == "::1");
    CHECK(!info->hosts[2].needs_lookup());
    CHECK(info->session_attrs == "read-write");
    CHECK(info->connect_timeout == base::milliseconds{3000});
    CHECK(info->database == "db");
    CHECK(info->user == "app");
    CHECK(option(*info, "sslmode") == "require");
    CHECK(option(*info, "password") == "s/ecret");
    CHECK(option(*info, "application_name") == "mine");
    CHECK(option(*info, "client_encoding") == "UTF8");
    CHECK(option(*info, "target_session_attrs").empty());
    CHECK(info->describe(info->hosts[1]) == "host 10.0.0.2, port 6432, database db, user app");
    CHECK(info->describe().find("ecret") == std::string::npos);
    CHECK(info->scrub("bad password s/ecret\nfor app\n") == "bad password *** for app");
}

TEST_CASE("the keyword form, one port for all hosts, addresses given, sockets", "[postgres]") {
    auto info = postgres::read_conninfo("host=a,b port=7 user=u dbname=d password='x y'");
    REQUIRE(good(info));
    CHECK(info->hosts.size() == 2);
    CHECK(info->hosts[1].port == "7");
    info = postgres::read_conninfo("host=name hostaddr=127.0.0.1 user=u");
    REQUIRE(good(info));
    CHECK(!info->hosts[0].needs_lookup());
    CHECK(info->database == "u");
    info = postgres::read_conninfo("host=/var/run/postgresql user=u");
    REQUIRE(good(info));
    CHECK(!info->hosts[0].needs_lookup());
    info = postgres::read_conninfo("");
    CHECK(good(info));
}

TEST_CASE("[B46] what may hold a misplaced password is refused without a word of it", "[postgres][B46]") {
    for (const auto* url : {"postgresql://u:hun/ter2@h/db", "postgresql://u:1/ter2@h/db", "postgresql://u:p@hun/ter2@h/db", "postgresql://u:hun ter2@h:x/db", "hunter2", "host=h password=hun ter2", "host=h port=ter2",
                            "postgresql://u@h:ter2/db", "postgresql://u:p@h%20ter2/db", "postgresql://u:%zzter2@h/db", "host=h hostaddr=1,2,3 port=ter2", "http://u:ter2@h/db", "postgresql:///db?port=ter2"}) {
        const auto info = postgres::read_conninfo(url);
        INFO(url);
        REQUIRE(!info);
        CHECK(info.error().code == base::errc::bad_config);
        CHECK(info.error().text.find("ter2") == std::string::npos);
        CHECK(info.error().text.find("hun") == std::string::npos);
    }
}

TEST_CASE("an option that libpq refuses is named", "[postgres]") {
    const auto info = postgres::read_conninfo("postgresql://u:hunter2@h/db?sslmode=often");
    REQUIRE(!info);
    CHECK(info.error().text.find("sslmode") != std::string::npos);
    CHECK(info.error().text.find("hunter2") == std::string::npos);
}

TEST_CASE("the string of a file loses one line end, and an absent file is an error with its path", "[postgres]") {
    CHECK(good(postgres::current_url(base::secret{"x"}, "")));
    const auto r = postgres::current_url({}, "/nonexistent/url");
    CHECK(refused(r, base::errc::bad_config));
    CHECK(r.error().text.find("/nonexistent/url") != std::string::npos);
}
