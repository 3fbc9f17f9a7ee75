#include "config/near_match.hpp"

#include <algorithm>

#include "base/encoding.hpp"

namespace outboxd::config {
namespace {

constexpr std::size_t longest_word = 64;

// Optimal string alignment over lower-case letters; `-` and `_` are one letter.
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
    for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
    for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replace = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, replace});
            const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[a.size()][b.size()];
}

std::string folded(std::string_view word) {
    std::string out = base::to_lower_ascii(word);
    std::replace(out.begin(), out.end(), '-', '_');
    while (!out.empty() && out.back() == ' ') out.pop_back();
    return out;
}

std::size_t edits_allowed(std::size_t length) noexcept { return length < 4 ? 1 : length < 7 ? 2 : 3; }

}  // namespace

std::string near_match(std::string_view word, const std::vector<std::string>& candidates) {
    if (word.empty() || word.size() > longest_word) return {};
    const std::string wanted = folded(word);
    std::string best;
    std::size_t best_distance = edits_allowed(wanted.size()) + 1;
    for (const std::string& candidate : candidates) {
        const std::size_t edits = distance(wanted, folded(candidate));
        // Replacing most of a short word is no near match.
        if (edits < best_distance && edits * 2 <= std::max(wanted.size(), candidate.size())) {
            best = candidate;
            best_distance = edits;
        }
    }
    return best;
}

std::string suggestion(std::string_view near) { return near.empty() ? std::string{} : " (did you mean `" + std::string(near) + "`?)"; }

}  // namespace outboxd::config
