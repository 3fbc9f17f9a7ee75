#include "admin/dashboard.hpp"

#include <openssl/sha.h>

#include "base/encoding.hpp"

namespace outboxd::admin {
namespace {

constexpr std::string_view style = R"css(
:root{color-scheme:light dark;--edge:#8884}
body{font:14px/1.45 system-ui,sans-serif;margin:1.5rem auto;max-width:72rem;padding:0 1rem}
h1{font-size:1.3rem;margin:0}h2{font-size:1rem;margin:1.6rem 0 .4rem}
header{display:flex;gap:1rem;align-items:baseline;flex-wrap:wrap}
#state{color:GrayText}#state.bad{color:#c22}
.tiles{display:flex;flex-wrap:wrap;gap:.6rem;margin-top:1rem}
.tile{border:1px solid var(--edge);border-radius:.4rem;padding:.5rem .8rem;min-width:7rem}
.tile b{display:block;font-size:1.35rem;font-variant-numeric:tabular-nums}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.25rem .6rem .25rem 0;border-bottom:1px solid var(--edge);vertical-align:top;overflow-wrap:anywhere}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
.warn{color:#b60}.bad{color:#c22}form{margin:1rem 0}input{font:inherit;padding:.2rem .4rem}
)css";

constexpr std::string_view script = R"js(
"use strict";
const $ = id => document.getElementById(id);
const make = (tag, text, cls) => { const e = document.createElement(tag); if (text !== undefined) e.textContent = text; if (cls) e.className = cls; return e; };
const count = (o, k) => o[k] + (o[k + "_at_least"] ? "+" : "");
const age = s => !s ? "-" : s < 1 ? Math.round(s * 1000) + " ms" : s < 120 ? Math.round(s) + " s" : s < 7200 ? Math.round(s / 60) + " min" : Math.round(s / 3600) + " h";
function tile(box, name, value, cls) { const t = make("div", undefined, "tile"); t.append(make("b", value, cls), make("span", name)); box.append(t); }
function table(id, title, heads, rows) {
  const box = $(id); box.replaceChildren();
  if (!rows.length) return;
  const t = make("table"), h = make("tr");
  heads.forEach(x => h.append(make("th", x.replace("#", ""), x.startsWith("#") ? "n" : "")));
  t.append(h);
  for (const r of rows) { const tr = make("tr"); r.forEach((x, i) => tr.append(make("td", x === null || x === "" ? "-" : x, heads[i].startsWith("#") ? "n" : ""))); t.append(tr); }
  box.append(make("h2", title), t);
}
function show(s) {
  const box = $("tiles"), d = s.deliveries; box.replaceChildren();
  tile(box, "due", count(d, "due")); tile(box, "oldest due", age(s.oldest_due_seconds), s.oldest_due_seconds > 60 ? "warn" : "");
  tile(box, "claimed", count(d, "claimed")); tile(box, "scheduled", count(d, "scheduled"));
  tile(box, "failed", count(d, "failed"), d.failed ? "bad" : ""); tile(box, "unrouted", count(d, "unrouted"), d.unrouted ? "warn" : "");
  tile(box, "published/s", s.rates.published_per_second); tile(box, "retried/s", s.rates.retried_per_second);
  table("relays", "Relays", ["id", "name", "host", "version", "state", "listening", "#in flight"], s.relays.map(r => [r.id, r.name, r.host, r.version, r.alive ? "alive" : "lease ended", r.listening ? "yes" : "no", r.in_flight]));
  table("lanes", "Lanes", ["lane", "state", "#due", "#oldest", "#scheduled", "#with key", "#failed"], s.lanes.slice(0, 100).map(l => [l.lane, l.state, count(l, "due"), age(l.oldest_due_seconds), count(l, "scheduled"), count(l, "with_ordering_key"), count(l, "failed")]));
  table("circuits", "Circuits", ["lane", "state", "open until", "#opens", "last error"], s.circuits.map(c => [c.lane, c.state, c.open_until, c.opens, c.last_error]));
  table("blocked", "Blocked ordering keys", ["key", "lane", "behind event", "#delivery", "#waiting"], s.blocked_keys.map(b => [b.ordering_key, b.lane, b.event_id, b.delivery, count(b, "waiting")]));
}
async function api(path) {
  const token = sessionStorage.getItem("token"), headers = token ? { Authorization: "Bearer " + token } : {};
  const r = await fetch("/api/v1/" + path, { headers, cache: "no-store" });
  $("login").hidden = r.status !== 401;
  const body = await r.json();
  if (!r.ok) throw new Error(body.error || r.status);
  return body;
}
async function turn() {
  try { const s = await api("status"); show(s); $("state").textContent = "schema " + s.schema + ", version " + s.schema_version + ", " + s.now; $("state").className = ""; }
  catch (e) { $("state").textContent = e.message; $("state").className = "bad"; }
  if (!document.hidden) timer = setTimeout(turn, 3000); else timer = 0;
}
let timer = 0;
document.addEventListener("visibilitychange", () => { if (!document.hidden && !timer) turn(); });
$("login").addEventListener("submit", e => { e.preventDefault(); sessionStorage.setItem("token", $("token").value); $("token").value = ""; clearTimeout(timer); turn(); });
$("ask").addEventListener("submit", async e => {
  e.preventDefault(); const out = $("answer"); out.replaceChildren();
  try { for (const w of await api("why/" + encodeURIComponent($("event").value.trim()))) { const p = make("div"); p.append(make("b", (w.endpoint || w.url || "(no endpoint)") + ": "), make("span", w.why)); out.append(p); } }
  catch (x) { out.append(make("span", x.message, "bad")); }
});
turn();
)js";

std::string hash_source(std::string_view text) {
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
    return "'sha256-" + base::base64_encode({reinterpret_cast<const char*>(digest), sizeof digest}) + "'";
}

answer page() {
    answer a;
    a.content_type = "text/html; charset=utf-8";
    a.body =
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
        "content=\"width=device-width,initial-scale=1\"><title>outboxd</title><style>";
    a.body += style;
    a.body +=
        "</style></head><body><header><h1>outboxd</h1><span id=\"state\">reading</span></header>\n"
        "<form id=\"login\" hidden><label>Token <input id=\"token\" type=\"password\" autocomplete=\"off\"></label> <button>Use</button></form>\n"
        "<div id=\"tiles\" class=\"tiles\"></div><div id=\"lanes\"></div><div id=\"circuits\"></div><div id=\"blocked\"></div><div id=\"relays\"></div>\n"
        "<h2>Why is an event not delivered?</h2><form id=\"ask\"><label>Event <input id=\"event\" size=\"40\"></label> <button>Ask</button></form><div "
        "id=\"answer\"></div>\n"
        "<script>";
    a.body += script;
    a.body += "</script></body></html>\n";
    a.headers.emplace_back("Content-Security-Policy",
                           "default-src 'none'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src " +
                               hash_source(style) + "; script-src " + hash_source(script));
    a.headers.emplace_back("Referrer-Policy", "no-referrer");
    return a;
}

}  // namespace

const answer& dashboard() {
    static const answer made = page();
    return made;
}

}  // namespace outboxd::admin
