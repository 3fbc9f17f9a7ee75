// The window before main() runs cannot be closed from inside: the help advises OUTBOXD_DATABASE_URL and secret files for that reason.
#include "commands/hide.hpp"

#include <cstring>
#include <string_view>

namespace outboxd::daemon {
namespace {

bool takes_secret(std::string_view name) {
    return name == "--database" || name == "--secret" || name == "--set";
}

// scheme://user:password@ or a signing secret anywhere in the word.
bool holds_secret(std::string_view word) {
    if (word.find("whsec_") != word.npos || word.find("whsk_") != word.npos || word.find("password=") != word.npos) return true;
    const auto scheme = word.find("://");
    return scheme != word.npos && word.find('@', scheme) != word.npos;
}

void overwrite(char* text) {
    std::memset(text, 'x', std::strlen(text));
}

}  // namespace

std::vector<std::string> take_arguments(int argc, char** argv) {
    std::vector<std::string> words;
    for (int i = 1; i < argc; ++i) words.emplace_back(argv[i]);
    for (int i = 1; i < argc; ++i) {
        const std::string& word = words[static_cast<std::size_t>(i - 1)];
        const auto equals = word.find('=');
        if (equals != std::string::npos && takes_secret(std::string_view{word}.substr(0, equals))) {
            overwrite(argv[i] + equals + 1);
        } else if ((i > 1 && takes_secret(words[static_cast<std::size_t>(i - 2)])) || holds_secret(word)) {
            overwrite(argv[i]);
        }
    }
    return words;
}

}  // namespace outboxd::daemon
