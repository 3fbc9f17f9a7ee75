#include "config/text_check.hpp"

#include <algorithm>

#include "base/encoding.hpp"
#include "config/document.hpp"

namespace outboxd::config {
namespace {

int line_at(std::string_view text, std::size_t offset) { return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n')); }

bool looks_like_utf16(std::string_view text) {
    if (text.size() < 2) return false;
    const auto first = static_cast<unsigned char>(text[0]);
    const auto second = static_cast<unsigned char>(text[1]);
    return (first == 0xff && second == 0xfe) || (first == 0xfe && second == 0xff) || (first == 0 && second != 0) || (first != 0 && second == 0);
}

bool forbidden_control(char c) noexcept {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
}

// Calls visit(line text, line number) for each line.
template <class Visit>
void each_line(std::string_view text, Visit visit) {
    int number = 1;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        visit(text.substr(0, end), number++);
        if (end == std::string_view::npos) return;
        text.remove_prefix(end + 1);
    }
}

void check_bytes(std::string_view text, const std::string& file, std::vector<problem>& problems) {
    each_line(text, [&](std::string_view line, int number) {
        if (problems.size() >= max_problems) return;
        if (!base::is_valid_utf8(line)) {
            problems.push_back({file, number, "", "not valid UTF-8: save the file as UTF-8", false});
        } else if (std::any_of(line.begin(), line.end(), forbidden_control)) {
            problems.push_back({file, number, "", "holds a control character: remove it (in double quotes it can be written as an escape)", false});
        }
        const std::size_t content = line.find_first_not_of(" \t");
        if (content != std::string_view::npos && line[content] != '#' && line.substr(0, content).find('\t') != std::string_view::npos) {
            problems.push_back({file, number, "", "a tab in the indentation: YAML wants spaces", false});
        }
    });
}

// Follows brackets and quotes as far as a reader without the grammar can. It may count a bracket within a plain text, never miss one in flow style; the walk over the parsed events
// has its own limit. What it protects is the scanner, which queues tokens for every open bracket before anything is parsed.
class bracket_counter {
public:
    explicit bracket_counter(std::string_view text) : text_(text) {}
    // The offset of the bracket that opens one level too many, or npos.
    [[nodiscard]] std::size_t first_too_deep() {
        for (; at_ < text_.size(); ++at_) {
            const char c = text_[at_];
            if (quote_ != 0) {
                within_quotes(c);
            } else if (c == '#' && starts_word()) {
                at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
            } else if ((c == '"' || c == '\'') && starts_value()) {
                quote_ = c;
            } else if ((c == '[' || c == '{') && (depth_ > 0 || starts_value())) {
                if (++depth_ > max_document_depth) return at_;
            } else if ((c == ']' || c == '}') && depth_ > 0) {
                --depth_;
            }
        }
        return std::string_view::npos;
    }

private:
    [[nodiscard]] bool starts_word() const noexcept { return at_ == 0 || text_[at_ - 1] == ' ' || text_[at_ - 1] == '\n' || text_[at_ - 1] == '\t'; }
    [[nodiscard]] bool starts_value() const noexcept { return starts_word() || std::string_view{"[{,:"}.find(text_[at_ - 1]) != std::string_view::npos; }
    void within_quotes(char c) noexcept {
        if (quote_ == '"' && c == '\\') {
            ++at_;
        } else if (c == quote_) {
            const bool doubled = c == '\'' && at_ + 1 < text_.size() && text_[at_ + 1] == '\'';
            doubled ? static_cast<void>(++at_) : static_cast<void>(quote_ = 0);
        }
    }

    std::string_view text_;
    std::size_t at_{0};
    int depth_{0};
    char quote_{0};
};

}  // namespace

std::string normalise_text(std::string_view text) {
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
        out += text[i];
    }
    return out;
}

std::vector<problem> check_text(std::string_view text, const std::string& file) {
    std::vector<problem> problems;
    if (text.size() > max_document_bytes) return {{file, 0, "", "larger than 4 MiB: this is no configuration file of outboxd", false}};
    if (looks_like_utf16(text)) return {{file, 1, "", "looks like UTF-16: save the file as UTF-8", false}};
    if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) return {{file, line_at(text, nul), "", "holds a NUL byte: this is no text file", false}};
    check_bytes(text, file, problems);
    if (!problems.empty()) return problems;
    if (const std::size_t deep = bracket_counter{text}.first_too_deep(); deep != std::string_view::npos) {
        problems.push_back({file, line_at(text, deep), "", "nested deeper than 64 levels", false});
    }
    return problems;
}

}  // namespace outboxd::config
