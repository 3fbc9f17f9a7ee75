// Role: results in assertions. Promise: CHECK(good(r)) shows the error's text when it fails; CHECK(refused(r, code)) wants that error.
#pragma once

#include <string>

#include "base/error.hpp"
#include "support/catch.hpp"

namespace outboxd::testkit {

template <class T>
bool good(const base::result<T>& r) {
    if (r.has_error()) UNSCOPED_INFO("error " << base::to_string(r.error().code) << ": " << r.error().text);
    return r.has_value();
}

template <class T>
bool refused(const base::result<T>& r, base::errc code) {
    if (r.has_value()) return false;
    UNSCOPED_INFO("error " << base::to_string(r.error().code) << ": " << r.error().text);
    return r.error().code == code;
}

}  // namespace outboxd::testkit
