#include "wire/signature/rfc9421.hpp"

#include "base/encoding.hpp"
#include "wire/idempotency_key.hpp"
#include "wire/signature/content_digest.hpp"

namespace outboxd::wire {

namespace {

constexpr std::int64_t adcp_lifetime = 300;  // seconds
constexpr std::string_view adcp_tag = "adcp/webhook-signing/v1";

base::error bad(std::string text) {
    return base::make_error(base::errc::invalid_input, std::move(text));
}

bool is_adcp(signing_scheme s) {
    return s == signing_scheme::adcp || s == signing_scheme::adcp_base64;
}

// RFC 9421 2.2: the derived components that a request has. nullopt: not one of them.
std::optional<std::string> derived(std::string_view name, const signed_request& r) {
    const auto query = r.target.find('?');
    if (name == "@method") return std::string(r.method);
    if (name == "@authority") return std::string(r.authority);
    if (name == "@scheme") return std::string(r.scheme);
    if (name == "@request-target") return std::string(r.target);
    if (name == "@path") return std::string(r.target.substr(0, query));
    if (name == "@query") return query == std::string_view::npos ? "?" : std::string(r.target.substr(query));
    if (name == "@target-uri") return std::string(r.scheme).append("://").append(r.authority).append(r.target);
    return std::nullopt;
}

std::string quoted_list(const std::vector<std::string>& components) {
    std::string out = "(";
    for (const auto& name : components) {
        if (out.size() > 1) out += ' ';
        append_sf_string(out, name);
    }
    return out += ')';
}

// The fields of our own request that covered_components names.
signed_request own_request(const signature_input& in, const std::string& digest) {
    signed_request r{in.method, in.scheme, in.authority, in.target, {}};
    r.field = [&in, &digest](std::string_view name) -> std::optional<std::string> {
        if (name == "content-type") return std::string(in.content_type);
        if (name == "content-digest") return digest;
        if (name == "webhook-id") return std::string(in.id);
        if (name == "webhook-timestamp") return std::string(in.timestamp);
        return std::nullopt;
    };
    return r;
}

base::result<void> check_keys(signing_scheme scheme, const std::vector<signing_key>& keys, std::string_view nonce) {
    if (!is_adcp(scheme)) return {};
    if (nonce.size() < 16) return bad("signing adcp needs a nonce of 16 random bytes");
    for (const auto& key : keys) {
        if (key.type() != signing_key::kind::ed25519) return bad("signing adcp needs ed25519 keys (whsk_)");
    }
    return {};
}

}  // namespace

base::result<std::string> signature_base(const std::vector<std::string>& components, std::string_view params, const signed_request& request) {
    std::string out;
    for (const auto& name : components) {
        auto value = name.starts_with('@') ? derived(name, request) : request.field(name);
        if (!value) return bad("the signature covers '" + base::printable(name, 60) + "', which the request does not have");
        append_sf_string(out, name);
        out.append(": ").append(*value) += '\n';
    }
    return out.append("\"@signature-params\": ").append(params);
}

const std::vector<std::string>& covered_components(signing_scheme scheme) {
    static const std::vector<std::string> adcp{"@method", "@target-uri", "@authority", "content-type", "content-digest"};
    static const std::vector<std::string> own{"@method", "@target-uri", "@authority", "content-type", "content-digest", "webhook-id", "webhook-timestamp"};
    return is_adcp(scheme) ? adcp : own;
}

std::string signature_params(signing_scheme scheme, const std::vector<std::string>& components, std::int64_t created, std::string_view nonce,
                             const signing_key& key, std::string_view key_id) {
    std::string out = quoted_list(components);
    out.append(";created=").append(std::to_string(created));
    if (is_adcp(scheme)) out.append(";expires=").append(std::to_string(created + adcp_lifetime));
    if (!nonce.empty()) append_sf_string(out.append(";nonce="), nonce);
    append_sf_string(out.append(";keyid="), key_id);
    append_sf_string(out.append(";alg="), key.type() == signing_key::kind::ed25519 ? "ed25519" : "hmac-sha256");
    if (is_adcp(scheme)) append_sf_string(out.append(";tag="), adcp_tag);
    return out;
}

base::result<void> append_rfc9421(std::string& out, signing_scheme scheme, const std::vector<signing_key>& keys, const signature_input& in) {
    if (const auto checked = check_keys(scheme, keys, in.nonce); !checked) return checked.error();
    std::string digest;
    append_content_digest(digest, in.body);
    const auto request = own_request(in, digest);
    const auto& components = covered_components(scheme);
    const std::string nonce = base::base64url_encode(in.nonce);
    std::string inputs;
    std::string signatures;
    int number = 0;
    for (const auto& key : keys) {
        const std::string label = (number == 0 ? "sig" : ", sig") + std::to_string(number + 1) + "=";
        ++number;
        const auto params = signature_params(scheme, components, in.created, nonce, key, key.key_id());
        const auto text = signature_base(components, params, request);
        if (!text) return text.error();
        const auto bytes = key.sign({*text});
        inputs.append(label).append(params);
        signatures.append(label).append(":").append(scheme == signing_scheme::adcp ? base::base64url_encode(bytes) : base::base64_encode(bytes)).append(":");
    }
    out.append("Content-Digest: ").append(digest).append("\r\nSignature-Input: ").append(inputs).append("\r\nSignature: ").append(signatures).append("\r\n");
    return {};
}

}  // namespace outboxd::wire
