#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>

#include "config/document.hpp"
#include "config/text_check.hpp"

namespace outboxd::config {
namespace {

// Leaves the parser at once, before it recurses any deeper.
struct refused {
    int line;
    const char* text;
};

constexpr const char* aliases_refused = "anchors (&name), aliases (*name) and merge keys (<<) are not supported: write the value out; put text that begins with & or * in quotes";
constexpr const char* tags_refused = "tags (!name) are not supported; put text that begins with ! in quotes";

// Builds the tree from yaml-cpp's events. Its own node type loses what matters here: quotes, duplicates, and walks aliases again and again.
class tree_builder final : public YAML::EventHandler {
public:
    [[nodiscard]] node take() { return std::move(root_); }
    [[nodiscard]] int document_line() const noexcept { return document_line_; }
    // Where the last quoted text begins; a null mark where there is none.
    [[nodiscard]] const YAML::Mark& last_quoted() const noexcept { return last_quoted_; }

    void OnDocumentStart(const YAML::Mark& mark) override { document_line_ = mark.line + 1; }
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { leaf(mark, "?", anchor, node::kind::null, {}); }
    void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& value) override {
        if (tag == "!") last_quoted_ = mark;
        leaf(mark, tag, anchor, node::kind::scalar, value);
    }
    void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { throw refused{mark.line + 1, aliases_refused}; }
    void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YAML::EmitterStyle::value) override { open(mark, tag, anchor, node::kind::list); }
    void OnSequenceEnd() override { close(); }
    void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YAML::EmitterStyle::value) override { open(mark, tag, anchor, node::kind::map); }
    void OnMapEnd() override { close(); }

private:
    static void check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
        if (anchor != 0) throw refused{mark.line + 1, aliases_refused};
        if (!tag.empty() && tag != "?" && tag != "!") throw refused{mark.line + 1, tags_refused};
    }

    void leaf(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, node::kind type, const std::string& value) {
        check(mark, tag, anchor);
        node n;
        n.type = type;
        n.line = mark.line + 1;
        n.plain = tag == "?";
        n.text = value;
        add(std::move(n));
    }

    void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, node::kind type) {
        check(mark, tag, anchor);
        if (open_.size() >= static_cast<std::size_t>(max_document_depth)) throw refused{mark.line + 1, "nested deeper than 64 levels"};
        node n;
        n.type = type;
        n.line = mark.line + 1;
        open_.push_back(std::move(n));
    }

    void close() {
        node done = std::move(open_.back());
        open_.pop_back();
        add(std::move(done));
    }

    void add(node n) {
        if (open_.empty()) {
            root_ = std::move(n);
        } else if (node& parent = open_.back(); parent.type == node::kind::list) {
            parent.items.push_back(std::move(n));
        } else if (!awaiting_value_.empty() && awaiting_value_.back() == open_.size()) {
            parent.members.back().second = std::move(n);
            awaiting_value_.pop_back();
        } else {
            start_member(parent, std::move(n));
        }
    }

    void start_member(node& parent, node key) {
        if (!key.is_scalar()) throw refused{key.line, "a key must be a plain word"};
        if (key.plain && key.text == "<<") throw refused{key.line, aliases_refused};
        parent.members.push_back({std::move(key), node{}});
        awaiting_value_.push_back(open_.size());
    }

    node root_;
    std::vector<node> open_;
    std::vector<std::size_t> awaiting_value_;  // depths of maps whose last key has no value yet
    int document_line_{1};
    YAML::Mark last_quoted_{YAML::Mark::null_mark()};
};

// yaml-cpp 0.7 takes the end of the file for the closing quote when a line end stands before it. Only the last quoted text can be left open like that.
bool left_open(std::string_view text, const YAML::Mark& start) {
    if (start.is_null()) return false;
    for (int line = 0; line < start.line && !text.empty(); ++line) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
    text.remove_prefix(std::min(static_cast<std::size_t>(start.column), text.size()));
    if (text.empty() || (text.front() != '"' && text.front() != '\'')) return false;  // a block text (| or >)
    const char quote = text.front();
    for (std::size_t at = 1; at < text.size(); ++at) {
        if (quote == '"' && text[at] == '\\') {
            ++at;
        } else if (text[at] == quote) {
            if (quote == '"' || at + 1 >= text.size() || text[at + 1] != quote) return false;
            ++at;
        }
    }
    return true;
}

// yaml-cpp's sentence where it is one of its constants; some of its others repeat what was written, which may be a secret.
std::string safe_reason(const YAML::Exception& e) {
    if (e.msg.starts_with(YAML::ErrorMsg::UNKNOWN_ANCHOR)) return aliases_refused;
    for (const char* known : {YAML::ErrorMsg::END_OF_MAP, YAML::ErrorMsg::END_OF_MAP_FLOW, YAML::ErrorMsg::END_OF_SEQ, YAML::ErrorMsg::END_OF_SEQ_FLOW, YAML::ErrorMsg::UNKNOWN_TOKEN,
                              YAML::ErrorMsg::DOC_IN_SCALAR, YAML::ErrorMsg::EOF_IN_SCALAR, YAML::ErrorMsg::CHAR_IN_SCALAR, YAML::ErrorMsg::TAB_IN_INDENTATION, YAML::ErrorMsg::FLOW_END,
                              YAML::ErrorMsg::BLOCK_ENTRY, YAML::ErrorMsg::MAP_KEY, YAML::ErrorMsg::MAP_VALUE, YAML::ErrorMsg::CHAR_IN_BLOCK}) {
        if (e.msg == known) return "not valid YAML: " + e.msg + " (is a quote or bracket left open, or does a text want quotes?)";
    }
    return "not valid YAML (a text with special characters wants quotes)";
}

}  // namespace

std::string_view describe(const node& n) noexcept {
    switch (n.type) {
        case node::kind::null: return "null";
        case node::kind::scalar: return n.plain ? "a plain value" : "quoted text";
        case node::kind::list: return "a list";
        case node::kind::map: return "a section";
    }
    return "null";
}

std::optional<node> parse_yaml(std::string_view yaml, const std::string& file, std::vector<problem>& problems) {
    const std::string text = normalise_text(yaml);
    const std::vector<problem> found = check_text(text, file);
    if (!found.empty()) {
        problems.insert(problems.end(), found.begin(), found.end());
        return std::nullopt;
    }
    tree_builder first;
    try {
        std::istringstream in(text);
        YAML::Parser parser(in);
        parser.HandleNextDocument(first);
        if (left_open(text, first.last_quoted())) throw refused{first.last_quoted().line + 1, "not valid YAML: a quote is left open"};
        tree_builder second;
        if (parser.HandleNextDocument(second)) throw refused{second.document_line(), "a second document (---): the configuration is one document"};
        return first.take();
    } catch (const refused& r) {
        problems.push_back({file, r.line, "", r.text, false});
    } catch (const YAML::Exception& e) {
        problems.push_back({file, e.mark.is_null() ? 0 : e.mark.line + 1, "", safe_reason(e), false});
    }
    return std::nullopt;
}

}  // namespace outboxd::config
