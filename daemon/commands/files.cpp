#include "commands/files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"

namespace outboxd::daemon {
namespace {

[[noreturn]] void fail(base::errc code, const std::string& what, const std::string& path) {
    throw base::failure(base::make_error(code, what + " '" + path + "': " + std::strerror(errno)));
}

// Closes at the end of the scope.
struct descriptor {
    int fd;
    ~descriptor() {
        if (fd > STDERR_FILENO) ::close(fd);
    }
};

}  // namespace

std::string read_whole(const std::string& path, std::size_t most) {
    const descriptor file{path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    if (file.fd < 0) fail(base::errc::io, "cannot open", path);
    std::string bytes;
    char buffer[65536];
    for (;;) {
        const auto n = ::read(file.fd, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) fail(base::errc::io, "cannot read", path);
        if (n == 0) return bytes;
        bytes.append(buffer, static_cast<std::size_t>(n));
        if (bytes.size() > most) throw base::failure(base::make_error(base::errc::io, "'" + path + "' is larger than " + std::to_string(most) + " bytes"));
    }
}

base::secret read_secret_file(const std::string& path) {
    std::string text = read_whole(path, 64 << 10);
    if (text.ends_with('\n')) text.pop_back();
    if (text.ends_with('\r')) text.pop_back();
    base::secret value{text};
    explicit_bzero(text.data(), text.size());
    if (value.empty()) throw base::failure(base::make_error(base::errc::invalid_input, "'" + path + "' holds no secret"));
    return value;
}

void write_secret_file(const std::string& path, const base::secret& value) {
    const descriptor file{::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
    if (file.fd < 0) fail(errno == EEXIST ? base::errc::refused : base::errc::io, "cannot write", path);
    const std::string text = std::string{value.reveal()} + "\n";
    if (::write(file.fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()) || ::fsync(file.fd) != 0) fail(base::errc::io, "cannot write", path);
}

}  // namespace outboxd::daemon
