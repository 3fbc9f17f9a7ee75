// keygen, sign, verify: the sender's own signature code in the hands of receivers' developers.
#include <openssl/rand.h>

#include <iostream>

#include "admin/json_writer.hpp"
#include "base/encoding.hpp"
#include "commands/command.hpp"
#include "commands/files.hpp"
#include "commands/output.hpp"
#include "wire/signature/sign.hpp"
#include "wire/signature/verify.hpp"

namespace outboxd::daemon {
namespace {

constexpr std::size_t most_body = 256 << 20;

wire::signing_scheme scheme_of(const arguments& args) {
    const auto name = args.get("--scheme").value_or("standard-webhooks");
    const auto scheme = wire::parse_signing_scheme(name);
    if (!scheme || *scheme == wire::signing_scheme::none)
        throw usage_error("--scheme wants standard-webhooks, rfc9421, adcp, github or stripe, not '" + base_printable(name) + "'");
    return *scheme;
}

std::vector<base::secret> secrets_of(const arguments& args) {
    std::vector<base::secret> secrets;
    for (const auto& path : args.all("--secret-file")) secrets.push_back(read_secret_file(path));
    for (const auto& text : args.all("--secret")) secrets.emplace_back(text);
    return secrets;
}

base::wall_time now() {
    return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
}

int keygen(const arguments& args) {
    const auto type = args.get("--type").value_or("hmac");
    if (type != "hmac" && type != "ed25519") throw usage_error("--type wants hmac or ed25519, not '" + base_printable(type) + "'");
    const base::secret fresh{type == "hmac" ? wire::generate_whsec() : wire::generate_whsk()};
    const auto key = wire::signing_key::parse(fresh);
    if (!key) throw base::failure(key.error());
    const auto file = args.get("--out");
    if (file) write_secret_file(*file, fresh);
    const auto public_key = key->public_text();
    if (args.json()) {
        admin::json_writer w;
        w.begin_object();
        if (file) {
            w.member("file", *file);
        } else {
            w.member("secret", fresh.reveal());
        }
        w.text_or_null("public_key", public_key).member("key_id", key->key_id()).end_object();
        print_json(w.text());
        return exit_done;
    }
    if (!file) std::cout << fresh.reveal() << '\n';
    if (!public_key.empty()) std::cout << public_key << '\n';
    if (file) std::cerr << "secret written to " << *file << '\n';
    return exit_done;
}

int sign(const arguments& args) {
    const auto scheme = scheme_of(args);
    wire::signer signer;
    signer.scheme = scheme;
    for (const auto& s : secrets_of(args)) {
        const auto key = wire::make_signing_key(scheme, s);
        if (!key) throw base::failure(key.error());
        signer.keys.push_back(*key);
    }
    if (signer.keys.empty()) throw usage_error("'sign' wants --secret-file FILE or --secret TEXT");
    // These two cover the fields that name and date the event; the others sign without them.
    const bool by_id = scheme == wire::signing_scheme::standard_webhooks || scheme == wire::signing_scheme::rfc9421;
    const auto id = args.get("--id").value_or("");
    if (by_id && id.empty()) throw usage_error("'sign' wants --id ID: it is part of what is signed");
    const auto created = args.number("--timestamp", std::chrono::duration_cast<base::seconds>(now().time_since_epoch()).count(), 0, 1LL << 40);
    const auto address = wire::parse_url(args.get("--url").value_or("https://localhost/"));
    if (!address) throw base::failure(address.error());
    const auto body = read_whole(args.get("--body-file").value_or("-"), most_body);
    const auto timestamp = std::to_string(created);
    const auto method = args.get("--method").value_or("POST");
    const auto content_type = args.get("--content-type").value_or("application/json");
    std::string nonce(16, '\0');
    if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), static_cast<int>(nonce.size())) != 1)
        throw base::failure(base::make_error(base::errc::internal, "no random bytes"));
    wire::signature_input in;
    in.method = method;
    in.scheme = address->tls ? "https" : "http";
    in.authority = address->authority;
    in.target = address->target;
    in.content_type = content_type;
    in.id = id;
    in.timestamp = timestamp;
    in.created = created;
    in.body = body;
    in.nonce = nonce;
    std::string fields = by_id ? "webhook-id: " + id + "\r\nwebhook-timestamp: " + timestamp + "\r\n" : "";
    if (const auto done = wire::append_signature_fields(fields, signer, in); !done) throw base::failure(done.error());
    admin::json_writer w;
    w.begin_object();
    for (std::string_view rest = fields; !rest.empty();) {
        const auto end = rest.find("\r\n");
        const auto line = rest.substr(0, end);
        rest.remove_prefix(end == rest.npos ? rest.size() : end + 2);
        const auto colon = line.find(": ");
        if (colon == line.npos) continue;
        w.member(line.substr(0, colon), line.substr(colon + 2));
        if (!args.json()) std::cout << line << '\n';
    }
    w.end_object();
    if (args.json()) print_json(w.text());
    return exit_done;
}

// `Name: value` of --header, and what the short flags stand for.
wire::header_list headers_of(const arguments& args) {
    wire::header_list headers;
    for (const auto& [flag, name] :
         {std::pair{"--id", "webhook-id"}, std::pair{"--timestamp", "webhook-timestamp"}, std::pair{"--signature", "webhook-signature"}}) {
        if (const auto value = args.get(flag)) headers.emplace_back(name, *value);
    }
    for (const auto& line : args.all("--header")) {
        const auto colon = line.find(':');
        if (colon == std::string::npos || colon == 0) throw usage_error("--header wants 'Name: value', not '" + base_printable(line) + "'");
        const auto start = line.find_first_not_of(" \t", colon + 1);
        headers.emplace_back(line.substr(0, colon), start == std::string::npos ? "" : line.substr(start));
    }
    return headers;
}

int verify(const arguments& args) {
    const auto scheme = scheme_of(args);
    auto secrets = secrets_of(args);
    for (const auto& text : args.all("--public-key")) secrets.emplace_back(text);
    std::vector<wire::verification_key> keys;
    for (const auto& s : secrets) {
        const auto key = wire::verification_key::parse(scheme, s);
        if (!key) throw base::failure(key.error());
        keys.push_back(*key);
    }
    if (keys.empty()) throw usage_error("'verify' wants --secret-file FILE, --secret TEXT or --public-key whpk_...");
    const auto address = wire::parse_url(args.get("--url").value_or("https://localhost/"));
    if (!address) throw base::failure(address.error());
    wire::received_request request;
    request.method = args.get("--method").value_or("POST");
    request.scheme = address->tls ? "https" : "http";
    request.authority = address->authority;
    request.target = address->target;
    request.headers = headers_of(args);
    request.body = read_whole(args.get("--body-file").value_or("-"), most_body);
    const auto tolerance = std::chrono::duration_cast<base::seconds>(args.duration("--tolerance", base::milliseconds{300'000}));
    const auto verdict = wire::verify_request(scheme, keys, request, now(), tolerance);
    if (args.json()) {
        admin::json_writer w;
        w.begin_object().member("valid", verdict.valid).member("text", verdict.text).end_object();
        print_json(w.text());
    } else if (verdict.valid) {
        std::cout << "valid: " << verdict.text << '\n';
    }
    if (!verdict.valid) std::cerr << "invalid: " << verdict.text << '\n';
    return verdict.valid ? exit_done : exit_failed;
}

std::vector<flag> request_flags() {
    return {{"--scheme", "NAME", "standard-webhooks (default), rfc9421, adcp, github or stripe"},
            {"--secret-file", "FILE", "file with a secret", true},
            {"--secret", "TEXT", "a secret; shows in the shell's history, prefer --secret-file", true},
            {"--body-file", "FILE", "the body's exact bytes (default: stdin)"},
            {"--id", "ID", "webhook-id"},
            {"--timestamp", "SECONDS", "webhook-timestamp"},
            {"--url", "URL", "the request's URL (rfc9421, adcp)"},
            {"--method", "NAME", "the request's method (default POST)"}};
}

}  // namespace

std::vector<command> signature_commands() {
    command k;
    k.name = "keygen";
    k.summary = "makes a signing secret";
    k.about = "Prints the secret, and for ed25519 its public key. With --out the secret goes to a new file (mode 0600) and is not shown.";
    k.flags = {{"--type", "KIND", "hmac (whsec_, default) or ed25519 (whsk_)"}, {"--out", "FILE", "write the secret to a new file"}};
    k.examples = {"outboxd keygen", "outboxd keygen --type ed25519 --out billing.secret"};
    k.run = keygen;
    k.database = false;

    command s;
    s.name = "sign";
    s.summary = "prints the signature headers for a body";
    s.flags = request_flags();
    s.flags.push_back({"--content-type", "TYPE", "covered by rfc9421 and adcp (default application/json)"});
    s.examples = {"outboxd sign --secret-file billing.secret --id evt_1 < body.json",
                  "outboxd sign --scheme github --secret-file hub.secret --body-file body.json"};
    s.run = sign;
    s.database = false;

    command v;
    v.name = "verify";
    v.summary = "checks the signature of a received request";
    v.about = "Exit code 0: valid; 1: not.";
    v.flags = request_flags();
    for (auto& f : v.flags) {
        if (f.name == "--timestamp") f.help = "webhook-timestamp as received";
    }
    v.flags.push_back({"--signature", "TEXT", "webhook-signature as received"});
    v.flags.push_back({"--header", "'NAME: VALUE'", "a header as received", true});
    v.flags.push_back({"--public-key", "KEY", "whpk_ public key instead of a secret", true});
    v.flags.push_back({"--tolerance", "D", "how far the signed time may lie from now (default 5m; 0s: not looked at)"});
    v.examples = {"outboxd verify --secret-file billing.secret --id evt_1 --timestamp 1614265330 --signature 'v1,...' --tolerance 0s < body.json",
                  "outboxd verify --scheme github --secret-file hub.secret --header 'X-Hub-Signature-256: sha256=...' --body-file body.json"};
    v.run = verify;
    v.database = false;
    return {k, s, v};
}

}  // namespace outboxd::daemon
