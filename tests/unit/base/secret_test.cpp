#include "base/secret.hpp"

#include <sstream>
#include <type_traits>
#include <utility>

#include "support/catch.hpp"

using outboxd::base::secret;

namespace {
template <class T>
concept streamable = requires(std::ostream& out, const T& value) {
    out << value;
};
template <class T>
concept comparable = requires(const T& a, const T& b) {
    a == b;
};
}  // namespace

TEST_CASE("a secret can be neither streamed nor compared by accident", "[base][secret]") {
    STATIC_REQUIRE_FALSE(streamable<secret>);
    STATIC_REQUIRE_FALSE(comparable<secret>);
    STATIC_REQUIRE_FALSE(std::is_convertible_v<secret, std::string>);
    STATIC_REQUIRE_FALSE(std::is_convertible_v<std::string, secret>);
}

TEST_CASE("a secret keeps its bytes through copies and moves, short or long", "[base][secret]") {
    for (const auto& text : {std::string("short"), std::string(200, 'x'), std::string()}) {
        secret a{text};
        secret b = a;
        CHECK(b.reveal() == text);
        secret c = std::move(a);
        CHECK(c.reveal() == text);
        CHECK(a.empty());  // NOLINT(bugprone-use-after-move): moved-from secrets are empty by promise
        b = c;
        b = *&b;
        CHECK(b.reveal() == text);
        c = secret{"other"};
        CHECK(c.reveal() == "other");
    }
}

TEST_CASE("a secret that goes leaves no bytes where it was", "[base][secret]") {
    alignas(secret) unsigned char room[sizeof(secret)];
    auto* s = new (room) secret{"s3cr3t-in-place"};
    s->~secret();
    const std::string_view left(reinterpret_cast<const char*>(room), sizeof room);
    CHECK(left.find("s3cr3t") == std::string_view::npos);
}

TEST_CASE("equality of secrets needs length and bytes", "[base][secret]") {
    const secret s{"token"};
    CHECK(s.equals("token"));
    CHECK_FALSE(s.equals("tokem"));
    CHECK_FALSE(s.equals("toke"));
    CHECK_FALSE(s.equals("token "));
    CHECK(secret{}.equals(""));
}
