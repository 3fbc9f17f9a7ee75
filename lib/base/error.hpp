// Errors as values. Floor 0: knows nothing of the rest; every other floor may include it.
#pragma once

#include <boost/assert/source_location.hpp>
#include <boost/system/result.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace outboxd::base {

// What went wrong, coarse enough to decide on; the sentence for people is error::text.
enum class errc {
    invalid_input = 1,     // a value from outside (row, flag, header, URL) is not acceptable
    bad_config,            // the configuration file or a setting in it
    io,                    // a local file or socket operation
    timeout,               // a deadline passed
    cancelled,             // we were told to stop
    database_unreachable,  // no connection, or it broke
    database_read_only,    // standby or read-only transaction
    database_schema,       // schema missing, of another version, or changed under us
    database_denied,       // rights, authentication
    database_busy,         // lock or statement timeout, serialization failure, too many connections: try again
    database_error,        // any other SQLSTATE
    lease_lost,            // this relay's lease is gone (SQLSTATE OB001)
    not_found,
    refused,               // understood, and declined with a reason
    internal,
};

[[nodiscard]] std::string_view to_string(errc code) noexcept;

struct error {
    errc code{errc::internal};
    std::string text;      // one sentence: names the thing and the way out; never holds a secret
    std::string sqlstate;  // five characters when the database said it, else empty
};

// Thrown by result<T>::value() and by start-up code only.
class failure : public std::runtime_error {
public:
    explicit failure(error e) : std::runtime_error(e.text), error_(std::move(e)) {}
    [[nodiscard]] const error& why() const noexcept { return error_; }

private:
    error error_;
};

[[noreturn]] void throw_exception_from_error(const error& e, const boost::source_location& where);

template <class T>
using result = boost::system::result<T, error>;

[[nodiscard]] inline error make_error(errc code, std::string text) { return error{code, std::move(text), {}}; }

}  // namespace outboxd::base
