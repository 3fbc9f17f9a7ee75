#include "config/secret_source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>


namespace outboxd::config {
namespace {

using base::errc;
using base::make_error;

bool is_variable_name(std::string_view name) noexcept {
    const auto letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; };
    return !name.empty() && name.size() <= 128 && letter(name.front()) && std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

// Pasted into the wrong place: must not be shown in the error about it.
bool looks_like_secret(std::string_view text) noexcept { return text.starts_with("whsec_") || text.starts_with("whsk_"); }

base::result<found_secret> from_environment(const std::string& name, const secret_source& source) {
    if (looks_like_secret(name)) return make_error(errc::bad_config, "env: takes the name of a variable; what stands there looks like a secret itself");
    if (source.used != nullptr) source.used->insert(name);
    const std::optional<std::string> value = source.env != nullptr ? (*source.env)(name) : std::nullopt;
    if (!value) return make_error(errc::io, "the environment variable " + name + " is not set");
    if (value->empty()) return make_error(errc::io, "the environment variable " + name + " is empty");
    return found_secret{base::secret{*value}, {}, {}};
}

// Editors and `echo` end a file with one line end, which is no part of the secret; anything more is.
void drop_line_end(std::string& text) {
    if (!text.ends_with('\n')) return;
    text.pop_back();
    if (text.ends_with('\r')) text.pop_back();
}

base::result<found_secret> from_file(const std::string& written, const secret_source& source) {
    if (looks_like_secret(written)) return make_error(errc::bad_config, "file: takes the path of a file; what stands there looks like a secret itself");
    const std::string path = absolute_path(written, source.directory);
    auto read = read_regular_file(path, max_secret_file_bytes);
    if (!read) return make_error(errc::io, "the secret's file " + path + ": " + read.error().text);
    drop_line_end(read->text);
    if (read->text.empty()) return make_error(errc::io, "the secret's file " + path + " is empty");
    found_secret found{base::secret{std::move(read->text)}, path, {}};
    if (read->loose) found.warning = "the secret's file " + path + " may be read by everybody or changed by its group: chmod 600 or 640 it";
    return found;
}

base::result<found_secret> from_text(const node& n, const secret_source& source) {
    const std::string_view text = n.text;
    if (text.empty()) return make_error(errc::bad_config, "the secret is empty");
    found_secret literal{base::secret{n.text}, {}, {}};
    if (!source.references || !text.starts_with("${") || !text.ends_with('}')) return literal;
    const std::string name{text.substr(2, text.size() - 3)};
    if (is_variable_name(name)) return from_environment(name, source);
    literal.warning = "looks like a variable but is taken as the text itself: only ${NAME} is replaced";
    return literal;
}

base::result<found_secret> from_reference(const node& n, const secret_source& source) {
    static constexpr std::string_view wanted = "a secret written as a section has exactly one key, env or file, with text: { env: NAME } or { file: PATH }";
    if (!source.references) return make_error(errc::bad_config, "env and file are read from the configuration file only: write the text itself");
    // Keys are not repeated here: `{secret}` without the dollar sign is a section whose key is the secret.
    if (n.members.size() != 1 || !n.members.front().second.is_scalar() || n.members.front().second.text.empty()) return make_error(errc::bad_config, std::string(wanted));
    const auto& [key, value] = n.members.front();
    if (key.text == "env") {
        if (!is_variable_name(value.text)) return make_error(errc::bad_config, "env wants the name of a variable: letters, digits and _");
        return from_environment(value.text, source);
    }
    if (key.text == "file") return from_file(value.text, source);
    return make_error(errc::bad_config, std::string(wanted));
}

std::string reason_of(int code) { return std::generic_category().message(code); }

class descriptor {
public:
    explicit descriptor(int fd) : fd_(fd) {}
    ~descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    descriptor(const descriptor&) = delete;
    descriptor& operator=(const descriptor&) = delete;
    [[nodiscard]] int get() const noexcept { return fd_; }

private:
    int fd_;
};

std::string_view kind_of(mode_t mode) noexcept {
    if (S_ISDIR(mode)) return "is a directory, not a file";
    if (S_ISFIFO(mode)) return "is a FIFO, not a regular file";
    if (S_ISSOCK(mode)) return "is a socket, not a regular file";
    return "is a device, not a regular file";
}

}  // namespace

std::string absolute_path(const std::string& path, const std::string& directory) { return path.starts_with('/') || directory.empty() ? path : directory + "/" + path; }

base::result<file_text> read_regular_file(const std::string& path, std::int64_t limit) {
    if (path.find('\0') != std::string::npos) return make_error(errc::io, "the path holds a NUL byte");
    // O_NONBLOCK: opening a FIFO would otherwise wait for its writer for ever.
    const descriptor fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
    if (fd.get() < 0) return make_error(errc::io, reason_of(errno));
    struct stat info {};
    if (::fstat(fd.get(), &info) != 0) return make_error(errc::io, reason_of(errno));
    if (S_ISCHR(info.st_mode) && info.st_rdev == makedev(1, 3)) return file_text{};  // /dev/null, the usual name of an empty file
    if (!S_ISREG(info.st_mode)) return make_error(errc::bad_config, std::string(kind_of(info.st_mode)));
    const std::string too_large = "is larger than " + std::to_string(limit >> 10) + " KiB";
    if (info.st_size > limit) return make_error(errc::bad_config, too_large);
    file_text out;
    out.loose = (info.st_mode & (S_IRWXO | S_IWGRP)) != 0;
    std::array<char, 16384> buffer{};
    for (;;) {
        const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return make_error(errc::io, reason_of(errno));
        if (n == 0) return out;
        out.text.append(buffer.data(), static_cast<std::size_t>(n));
        // Files of /proc and growing ones say nothing true in st_size.
        if (static_cast<std::int64_t>(out.text.size()) > limit) return make_error(errc::bad_config, too_large);
    }
}

base::result<found_secret> find_secret(const node& n, const secret_source& source) {
    if (n.is_scalar()) return from_text(n, source);
    if (n.is_map()) return from_reference(n, source);
    return make_error(errc::bad_config, "must be text, ${NAME}, { env: NAME } or { file: PATH }, not " + std::string(describe(n)));
}

}  // namespace outboxd::config
