// Bodies and secrets from files and stdin. Floor 5.
#pragma once

#include <string>

#include "base/secret.hpp"

namespace outboxd::daemon {

// The whole file, or stdin for "-" ; at most `most` bytes. Throws base::failure(io) naming the file and the reason.
[[nodiscard]] std::string read_whole(const std::string& path, std::size_t most);
// The file without one trailing LF or CRLF, as the configuration's {file: PATH}.
[[nodiscard]] base::secret read_secret_file(const std::string& path);
// A new file that only its owner may read. Throws base::failure(refused) when it exists.
void write_secret_file(const std::string& path, const base::secret& value);

}  // namespace outboxd::daemon
