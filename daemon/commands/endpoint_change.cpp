// endpoint add, set, rotate-secret.
#include <algorithm>
#include <iostream>

#include "admin/json_writer.hpp"
#include "commands/context.hpp"
#include "commands/files.hpp"
#include "commands/output.hpp"
#include "wire/signature/sign.hpp"
#include "wire/url.hpp"

namespace outboxd::daemon {
namespace {

[[noreturn]] void invalid(std::string text) {
    throw base::failure(base::make_error(base::errc::invalid_input, std::move(text)));
}

std::vector<std::string> patterns_of(const arguments& args) {
    std::vector<std::string> patterns;
    for (const auto& list : args.all("--events")) {
        for (std::string_view rest = list; !rest.empty();) {
            const auto comma = rest.find(',');
            const std::string pattern{rest.substr(0, comma)};
            rest.remove_prefix(comma == rest.npos ? rest.size() : comma + 1);
            const auto star = pattern.find('*');
            const bool fits = !pattern.empty() && pattern.size() <= 255 &&
                              (star == std::string::npos || pattern == "*" || (star == pattern.size() - 1 && pattern.ends_with(".*")));
            if (!fits) invalid("--events wants event types, 'prefix.*' or '*', with commas between, not '" + base_printable(pattern) + "'");
            patterns.push_back(pattern);
        }
    }
    if (patterns.empty() && args.has("--events")) invalid("--events is empty: name at least one type, or '*'");
    return patterns;
}

// The address is checked as the relay will: what it would refuse for good is refused here; what the address policy would block is only warned of, since the
// policy may change.
void check_address(const std::string& text, const config::config& settings) {
    const auto url = wire::parse_url(text);
    if (!url) throw base::failure(url.error());
    if (const auto scheme = wire::check_scheme(*url, settings.egress.policy.allow_http); !scheme) throw base::failure(scheme.error());
    const auto address = wire::parse_ip(url->host);
    const auto decision = address ? wire::decide_address(settings.egress.policy, url->host, *address, url->port, false)
                                  : wire::decide_host(settings.egress.policy, url->host, url->port, false);
    if (!decision.allowed) std::cerr << "warning: deliveries to " << url->host << " will be blocked (" << decision.reason << "); egress.allow permits it\n";
}

config::endpoint_settings check_settings(const config::config& settings, const std::string& json) {
    auto effective = config::apply_settings(settings.defaults, json);
    if (!effective) throw base::failure(effective.error());
    return std::move(*effective);
}

// `key=value` pairs merged into the settings object, one error at a time with the key's name.
std::string merged_settings(std::string json, const std::vector<std::string>& pairs) {
    for (const auto& pair : pairs) {
        const auto equals = pair.find('=');
        if (equals == std::string::npos || equals == 0)
            throw usage_error("a setting is written key=value, not '" + base_printable(pair.substr(0, equals)) + "'");
        auto merged = config::merge_setting(json, pair.substr(0, equals), pair.substr(equals + 1));
        if (!merged) throw base::failure(merged.error());
        json = std::move(*merged);
    }
    return json;
}

struct chosen_secret {
    std::optional<base::secret> value;
    bool generated{false};
};

chosen_secret secret_of(const arguments& args, wire::signing_scheme scheme, bool generate_by_default) {
    const auto file = args.get("--secret-file");
    if (file && args.has("--generate-secret")) throw usage_error("--secret-file and --generate-secret do not go together");
    const bool generate = args.has("--generate-secret") || (generate_by_default && !file);
    if (args.has("--secret-out") && !generate) throw usage_error("--secret-out goes with --generate-secret");
    if (generate && args.json() && !args.has("--secret-out"))
        throw usage_error("--json never holds a secret: name a file for the generated one with --secret-out FILE");
    if (!file && !generate) return {};
    const base::secret value =
        file ? read_secret_file(*file) : base::secret{scheme == wire::signing_scheme::adcp ? wire::generate_whsk() : wire::generate_whsec()};
    if (const auto key = wire::make_signing_key(scheme, value); !key) throw base::failure(key.error());
    return {value, generate};
}

// A generated secret is shown once, here: the receiver needs it, and the database gives it to nobody else.
void hand_out(const arguments& args, const chosen_secret& secret) {
    if (!secret.generated) return;
    if (const auto file = args.get("--secret-out")) {
        write_secret_file(*file, *secret.value);
        std::cerr << "secret written to " << *file << '\n';
    } else {
        std::cout << secret.value->reveal() << '\n';
        std::cerr << "this secret is shown once; give it to the receiver\n";
    }
}

void print_done(const arguments& args, const std::string& name, const char* what) {
    if (args.json()) {
        admin::json_writer w;
        w.begin_object().member("name", name).member("state", what);
        if (const auto file = args.get("--secret-out")) w.member("secret_file", *file);
        w.end_object();
        print_json(w.text());
    } else {
        std::cerr << "endpoint " << base_printable(name) << ": " << what << '\n';
    }
}

bool good_name(const std::string& name) {
    const auto inner = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-'; };
    return !name.empty() && name.size() <= 64 && name[0] != '_' && name[0] != '.' && name[0] != '-' && std::all_of(name.begin(), name.end(), inner);
}

int add(const arguments& args) {
    ports::new_endpoint what;
    what.name = args.operands.at(0);
    what.url = args.operands.at(1);
    if (!good_name(what.name))
        invalid("an endpoint's name is 1 to 64 letters, digits, dots, dashes and underscores, and begins with a letter or digit; '" +
                base_printable(what.name) + "' is not");
    const auto settings = settings_of(args);
    check_address(what.url, settings);
    what.settings = merged_settings("{}", args.all("--set"));
    const auto effective = check_settings(settings, what.settings);
    if (const auto patterns = patterns_of(args); !patterns.empty()) what.events = patterns;
    what.tenant_id = args.get("--tenant");
    what.enabled = !args.has("--disabled");
    const auto secret = secret_of(args, effective.signing, false);
    what.secret = secret.value;
    operator_session session(settings);
    // The file comes first: a secret that is stored and could not be handed out would be lost.
    if (args.has("--secret-out")) hand_out(args, secret);
    session.get(session.store().add_endpoint(what));
    if (!args.has("--secret-out")) hand_out(args, secret);
    print_done(args, what.name, "added");
    if (!what.secret && effective.signing != wire::signing_scheme::none)
        std::cerr << "warning: it has no secret, so its requests are not signed; 'outboxd endpoint rotate-secret' gives it one\n";
    return exit_done;
}

void refuse_from_file(operator_session& session, const std::string& name) {
    if (session.get(session.store().endpoint_for_test(name)).managed_by != "config") return;
    throw base::failure(base::make_error(base::errc::refused, "endpoint '" + name + "' comes from the configuration file; change it there"));
}

int set(const arguments& args) {
    const auto& name = args.operands.at(0);
    std::vector<std::string> pairs(args.operands.begin() + 1, args.operands.end());
    const auto more = args.all("--set");
    pairs.insert(pairs.end(), more.begin(), more.end());
    if (args.has("--tenant") && args.has("--no-tenant")) throw usage_error("--tenant and --no-tenant do not go together");
    operator_session session(args);
    refuse_from_file(session, name);
    ports::endpoint_change change;
    if (!pairs.empty()) {
        change.settings = merged_settings(session.get(session.store().endpoint_settings(name)), pairs);
        (void)check_settings(session.settings(), *change.settings);
    }
    if ((change.url = args.get("--url"))) check_address(*change.url, session.settings());
    if (const auto patterns = patterns_of(args); !patterns.empty()) change.events = patterns;
    if (args.has("--tenant")) change.tenant_id = args.get("--tenant");
    if (args.has("--no-tenant")) change.tenant_id = std::optional<std::string>{};
    if (!change.settings && !change.url && !change.events && !change.tenant_id)
        throw usage_error("nothing to change: give key=value, --url, --events, --tenant or --no-tenant");
    session.get(session.store().change_endpoint(name, change));
    print_done(args, name, "changed");
    return exit_done;
}

int rotate(const arguments& args) {
    const auto& name = args.operands.at(0);
    const auto overlap = args.duration("--keep-old", base::milliseconds{24 * 3600 * 1000LL});
    operator_session session(args);
    refuse_from_file(session, name);
    const auto effective = check_settings(session.settings(), session.get(session.store().endpoint_settings(name)));
    const auto secret = secret_of(args, effective.signing, true);
    if (args.has("--secret-out")) hand_out(args, secret);
    session.get(session.store().rotate_secret(name, *secret.value, overlap));
    if (!args.has("--secret-out")) hand_out(args, secret);
    print_done(args, name, ("new secret signs; old ones sign along for " + base::describe_duration(overlap)).c_str());
    return exit_done;
}

std::vector<flag> secret_flags() {
    return {{"--secret-file", "FILE", "file with the secret (one line end at its end is dropped)"},
            {"--generate-secret", "", "make a new secret; it is shown once"},
            {"--secret-out", "FILE", "write the generated secret to a new file instead of showing it"}};
}

}  // namespace

std::vector<command> endpoint_change_commands() {
    command a;
    a.name = "endpoint add";
    a.summary = "adds an endpoint";
    a.about =
        "It takes effect within a second. Keys for --set are those of 'defaults' in the configuration: timeout, concurrency, rate_limit, retry.jitter ...";
    a.operands = {{"NAME", "letters, digits, dots, dashes, underscores"}, {"URL", "https://..."}};
    a.flags = secret_flags();
    a.flags.insert(a.flags.begin(), {{"--events", "A,B", "event types, 'order.*', '*' (default *)", true},
                                     {"--tenant", "T", "sees only this tenant's events"},
                                     {"--set", "KEY=VALUE", "a setting", true},
                                     {"--disabled", "", "add it disabled"}});
    a.examples = {"outboxd endpoint add billing https://billing.example.com/hooks --events 'order.*,invoice.paid' --generate-secret",
                  "outboxd endpoint add slow https://slow.example.com/ --secret-file slow.secret --set timeout=30s --set concurrency=4"};
    a.run = add;

    command s;
    s.name = "endpoint set";
    s.summary = "changes an endpoint";
    s.about = "A setting set to null goes back to its default.";
    s.operands = {{"NAME", "name of the endpoint"}, {"KEY=VALUE", "a setting", 0, -1}};
    s.flags = {{"--url", "URL", "its new address; used at the next attempt"},
               {"--events", "A,B", "event types, 'order.*', '*'", true},
               {"--tenant", "T", "sees only this tenant's events"},
               {"--no-tenant", "", "sees all tenants' events"},
               {"--set", "KEY=VALUE", "a setting", true}};
    s.examples = {"outboxd endpoint set billing timeout=30s rate_limit=100/s", "outboxd endpoint set billing --url https://new.example.com/hooks",
                  "outboxd endpoint set billing timeout=null"};
    s.run = set;

    command r;
    r.name = "endpoint rotate-secret";
    r.summary = "gives an endpoint a new secret; old ones sign along for a while";
    r.about = "Without --secret-file a new secret is made and shown once.";
    r.operands = {{"NAME", "name of the endpoint"}};
    r.flags = secret_flags();
    r.flags.push_back({"--keep-old", "D", "how long old secrets sign along (default 24h)"});
    r.examples = {"outboxd endpoint rotate-secret billing", "outboxd endpoint rotate-secret billing --secret-file new.secret --keep-old 1h"};
    r.run = rotate;
    return {a, s, r};
}

}  // namespace outboxd::daemon
