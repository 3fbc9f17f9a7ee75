// Role: certificates of every kind for tests: good ones and each way of being wrong.
// Promise: made in memory by the OpenSSL library within milliseconds (EC P-256); OpenSSL stays in the .cpp file.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace outboxd::testkit {

/// What a certificate shall say. Times are relative to now, so an expired one is {.not_before = -48h, .not_after = -24h}.
struct certificate_request {
  std::string common_name = "localhost";
  std::vector<std::string> dns_names;     ///< subject alternative names: "localhost", "*.example.test"
  std::vector<std::string> ip_addresses;  ///< subject alternative names: "127.0.0.1", "::1"
  std::chrono::seconds not_before = std::chrono::hours{-1};
  std::chrono::seconds not_after = std::chrono::hours{24};
  bool server_auth = true;
  bool client_auth = false;
};

/// A certificate with its private key, PEM. `certificate_pem` holds the leaf first, then the intermediates if any.
struct certificate {
  std::string certificate_pem;
  std::string key_pem;
};

/// A root, or an intermediate below one.
class certificate_authority {
 public:
  explicit certificate_authority(std::string_view common_name = "outboxd test root");
  ~certificate_authority();
  certificate_authority(certificate_authority&&) noexcept;
  certificate_authority& operator=(certificate_authority&&) noexcept;

  /// PEM of this authority's own certificate: what `tls.ca_file` holds for a root.
  const std::string& certificate_pem() const;
  certificate issue(const certificate_request& request) const;
  /// An authority signed by this one; what it issues carries its certificate in the chain.
  certificate_authority intermediate(std::string_view common_name = "outboxd test intermediate") const;

  /// Shorthands for the usual kinds.
  certificate for_localhost() const;     ///< DNS localhost, IP 127.0.0.1 and ::1
  certificate wrong_name() const;        ///< DNS other.example.test only
  certificate expired() const;           ///< localhost, ended a day ago
  certificate not_yet_valid() const;     ///< localhost, begins in a day
  certificate common_name_only() const;  ///< CN localhost, no subject alternative name
  certificate client_only() const;       ///< localhost, extended key usage clientAuth

 private:
  struct state;
  explicit certificate_authority(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

/// Signed by its own key and by nobody else.
certificate self_signed(const certificate_request& request);

/// A directory that is removed with its contents at the end of the scope.
class temporary_directory {
 public:
  temporary_directory();
  ~temporary_directory();
  temporary_directory(const temporary_directory&) = delete;
  temporary_directory& operator=(const temporary_directory&) = delete;
  const std::filesystem::path& path() const { return path_; }
  /// Writes a file (mode 0600 by default) and returns its path.
  std::filesystem::path write(std::string_view name, std::string_view content, unsigned mode = 0600) const;

 private:
  std::filesystem::path path_;
};

}  // namespace outboxd::testkit
