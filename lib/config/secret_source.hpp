// Where secrets come from: the file's own text, the environment, other files. Floor 2; reads files when told to.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/secret.hpp"
#include "config/document.hpp"

namespace outboxd::config {

struct secret_source {
    const environment* env{nullptr};
    std::string directory;                 // of the configuration file: `{ file: PATH }` is relative to it
    bool references{true};                 // false: `${NAME}`, env and file are not followed (rows of the database must not read the relay's files)
    std::set<std::string>* used{nullptr};  // names of variables that the file mentions
    bool needed{true};                     // false: one that cannot be had here is no problem, but for connection strings
};

struct found_secret {
    base::secret value;
    std::string file;     // path where it came from a file
    std::string warning;  // loose permissions, a form that looks like a reference and is none
};

inline constexpr std::int64_t max_secret_file_bytes = 64 << 10;

// Literal, `${NAME}` as the whole value, `{ env: NAME }`, `{ file: PATH }`. Errors name the variable or the path, never a value: io (it cannot be had here), bad_config (it is written wrongly).
[[nodiscard]] base::result<found_secret> find_secret(const node& n, const secret_source& source);
[[nodiscard]] std::string absolute_path(const std::string& path, const std::string& directory);

// A whole regular file of at most `limit` bytes, without ever waiting for a writer (FIFO). Error: io or bad_config, with the reason.
struct file_text {
    std::string text;
    bool loose{false};  // others may read it, or its group may write it
};
[[nodiscard]] base::result<file_text> read_regular_file(const std::string& path, std::int64_t limit);

}  // namespace outboxd::config
