#include "base/error.hpp"

#include "support/catch.hpp"

using namespace outboxd::base;

TEST_CASE("value() of an error throws the error itself", "[base][error]") {
    const result<int> bad = make_error(errc::not_found, "no such endpoint");
    try {
        (void)bad.value();
        FAIL("value() must throw");
    } catch (const failure& f) {
        CHECK(f.why().code == errc::not_found);
        CHECK(std::string(f.what()) == "no such endpoint");
    }
}

TEST_CASE("every error code has its own name", "[base][error]") {
    CHECK(to_string(errc::invalid_input) == "invalid_input");
    CHECK(to_string(errc::lease_lost) == "lease_lost");
    CHECK(to_string(errc::internal) == "internal");
}
