#include "postgres/operator_statements.hpp"

#include "postgres/statements.hpp"

namespace outboxd::postgres {
namespace {

// Microseconds since 1970, NULL for NULL and for infinity (whose epoch does not fit a bigint).
// Moments beyond the year 9999 are as good as never.
#define US(x) "CASE WHEN " x " BETWEEN '0001-01-01 00:00:00+00' AND '9999-12-31 23:59:59+00' THEN (extract(epoch FROM " x ") * 1000000)::bigint END"

// Bounded: the sample ends after 100,000 pending rows, the two other counts read their own partial indexes as far. `live` is what the planner believes.
constexpr auto totals = R"sql(
WITH pending AS MATERIALIZED (SELECT d.due_at, d.claimed_by FROM @schema@.delivery d WHERE d.status = 'pending' LIMIT 100001)
SELECT )sql" US("clock_timestamp()") R"sql(,
       (SELECT max(m.version) FROM @schema@.migration m),
       greatest((SELECT c.reltuples::bigint FROM pg_catalog.pg_class c WHERE c.oid = '@schema@.delivery'::regclass), 0),
       count(*),
       count(*) FILTER (WHERE p.due_at <= clock_timestamp() AND p.claimed_by IS NULL),
       count(*) FILTER (WHERE p.due_at > clock_timestamp()),
       count(p.claimed_by),
       (SELECT count(*) FROM (SELECT FROM @schema@.delivery f WHERE f.status = 'failed' LIMIT 100001) x),
       (SELECT count(*) FROM (SELECT FROM @schema@.delivery u WHERE u.status = 'unrouted' LIMIT 100001) x),
       coalesce(extract(epoch FROM clock_timestamp() - min(p.due_at) FILTER (WHERE p.due_at <= clock_timestamp()))::float8, 0)
FROM pending p)sql";

// The last 20,000 attempts at most: where all of them are younger than a minute, the window is as old as the oldest.
constexpr auto rates = R"sql(
WITH recent AS MATERIALIZED (SELECT a.outcome, a.finished_at FROM @schema@.attempt a ORDER BY a.id DESC LIMIT 20000),
     fresh AS (SELECT r.outcome, r.finished_at FROM recent r WHERE r.finished_at > clock_timestamp() - interval '60 s')
SELECT CASE WHEN (SELECT count(*) FROM fresh) = 20000 THEN greatest(extract(epoch FROM clock_timestamp() - min(f.finished_at))::float8, 0.001) ELSE 60 END,
       count(*) FILTER (WHERE f.outcome = 'published'), count(*) FILTER (WHERE f.outcome = 'retried'), count(*) FILTER (WHERE f.outcome = 'failed')
FROM fresh f)sql";

constexpr auto relays = R"sql(
SELECT r.id, r.name, r.host, r.version, r.pid, )sql" US("r.started_at") ", " US("r.lease_until") R"sql(,
       r.lease_until > clock_timestamp(), r.listening, r.in_flight, coalesce(r.info::text, '{}')
FROM @schema@.relay r ORDER BY r.id LIMIT 200)sql";

constexpr auto circuits = R"sql(
SELECT c.lane, c.state, c.failures, c.opens, )sql" US("c.opened_at") ", " US("c.open_until") R"sql(, c.last_error
FROM @schema@.circuit c ORDER BY c.opened_at DESC LIMIT $1)sql";

// A skip scan over the three partial indexes that begin with the lane: its cost is the number of lanes (200 at most), not of rows. Each count ends at 1,000.
constexpr auto lanes = R"sql(
WITH RECURSIVE walk(lane, n) AS (
    SELECT least((SELECT d.lane FROM @schema@.delivery d WHERE d.status = 'pending' AND d.ordering_key IS NULL ORDER BY d.lane LIMIT 1),
                 (SELECT d.lane FROM @schema@.delivery d WHERE d.ordering_key IS NOT NULL AND (d.status = 'pending' OR d.blocks) ORDER BY d.lane LIMIT 1),
                 (SELECT d.lane FROM @schema@.delivery d WHERE d.status = 'failed' ORDER BY d.lane LIMIT 1)), 1
    UNION ALL
    SELECT least((SELECT d.lane FROM @schema@.delivery d WHERE d.lane > w.lane AND d.status = 'pending' AND d.ordering_key IS NULL ORDER BY d.lane LIMIT 1),
                 (SELECT d.lane FROM @schema@.delivery d WHERE d.lane > w.lane AND d.ordering_key IS NOT NULL AND (d.status = 'pending' OR d.blocks) ORDER BY d.lane LIMIT 1),
                 (SELECT d.lane FROM @schema@.delivery d WHERE d.lane > w.lane AND d.status = 'failed' ORDER BY d.lane LIMIT 1)), w.n + 1
    FROM walk w WHERE w.lane IS NOT NULL AND w.n < 201)
SELECT w.lane, due.n, scheduled.n, keyed.n, failed.n, coalesce(extract(epoch FROM clock_timestamp() - oldest.due_at)::float8, 0),
       CASE WHEN e.enabled IS FALSE THEN 'disabled' WHEN e.paused THEN 'paused' WHEN c.state IS NOT NULL THEN 'circuit ' || c.state ELSE 'ok' END
FROM walk w
CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM @schema@.delivery d WHERE d.lane = w.lane AND d.status = 'pending' AND d.ordering_key IS NULL
                    AND d.due_at <= clock_timestamp() LIMIT 1001) x) due
CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM @schema@.delivery d WHERE d.lane = w.lane AND d.status = 'pending' AND d.ordering_key IS NULL
                    AND d.due_at > clock_timestamp() LIMIT 1001) x) scheduled
CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM @schema@.delivery d WHERE d.lane = w.lane AND d.ordering_key IS NOT NULL AND d.status = 'pending' LIMIT 1001) x) keyed
CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM @schema@.delivery d WHERE d.lane = w.lane AND d.status = 'failed' LIMIT 1001) x) failed
LEFT JOIN LATERAL (SELECT d.due_at FROM @schema@.delivery d WHERE d.lane = w.lane AND d.status = 'pending' AND d.ordering_key IS NULL
                   AND d.due_at <= clock_timestamp() ORDER BY d.due_at LIMIT 1) oldest ON true
LEFT JOIN @schema@.endpoint e ON e.name = w.lane
LEFT JOIN @schema@.circuit c ON c.lane = w.lane
WHERE w.lane IS NOT NULL
ORDER BY due.n + keyed.n DESC, failed.n DESC, w.lane)sql";

constexpr auto blocked_keys = R"sql(
SELECT b.lane, b.ordering_key, e.event_id, b.event, b.id, waiting.n
FROM (SELECT f.lane, f.ordering_key, f.event, f.id FROM @schema@.delivery f WHERE f.blocks ORDER BY f.lane, f.ordering_key, f.event LIMIT $1) b
LEFT JOIN @schema@.event e ON e.id = b.event
CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM @schema@.delivery d WHERE d.lane = b.lane AND d.ordering_key = b.ordering_key AND d.event > b.event
                    AND d.ordering_key IS NOT NULL AND d.status = 'pending' LIMIT 1001) x) waiting
ORDER BY b.event)sql";

constexpr auto find_event = R"sql(
SELECT e.id FROM @schema@.event e WHERE e.event_id = $1::text
UNION ALL
SELECT e.id FROM @schema@.event e WHERE e.id = $2::bigint
LIMIT 1)sql";

// The row in front with the same ordering key is the lowest event of the keyed index: the one the claim would take.
constexpr auto why = R"sql(
SELECT s.event, s.event_id, s.event_type, s.endpoint, s.url, s.delivery, s.status, s.attempts, s.last_outcome, s.last_error,
       )sql" US("s.next_attempt_at") ", " US("s.published_at") ", " US("s.created_at") ", " US("clock_timestamp()") R"sql(,
       d.lane, d.ordering_key, )sql" US("d.due_at") ", " US("d.expires_at") R"sql(, coalesce(d.blocks, false), d.fan_after IS NOT NULL,
       coalesce(d.status = 'unrouted' AND d.due_at = 'infinity', false),
       d.claimed_by, r.name, r.host, r.pid, coalesce(r.lease_until > clock_timestamp(), false), )sql" US("r.lease_until") R"sql(,
       ep.name IS NOT NULL, coalesce(ep.paused, false), coalesce(ep.enabled, true), ep.disabled_reason, )sql" US(
    "ep.disabled_at") R"sql(, ep.settings ->> 'rate_limit',
       c.state, c.last_error, )sql" US("c.open_until") R"sql(, front.event_id, front.status, before.n,
       (SELECT count(*) FROM @schema@.relay l WHERE l.lease_until > clock_timestamp()),
       EXISTS (SELECT FROM @schema@.relay l WHERE l.lease_until > clock_timestamp() AND jsonb_typeof(l.info -> 'rate_limited') = 'array'
               AND jsonb_exists(l.info -> 'rate_limited', d.lane))
FROM @schema@.status s
LEFT JOIN @schema@.delivery d ON d.id = s.delivery
LEFT JOIN @schema@.relay r ON r.id = d.claimed_by
LEFT JOIN @schema@.endpoint ep ON ep.name = s.endpoint
LEFT JOIN @schema@.circuit c ON c.lane = d.lane
LEFT JOIN LATERAL (SELECT o.event, o.status, e.event_id FROM @schema@.delivery o LEFT JOIN @schema@.event e ON e.id = o.event
                   WHERE o.lane = d.lane AND o.ordering_key = d.ordering_key AND o.ordering_key IS NOT NULL AND (o.status = 'pending' OR o.blocks)
                   AND o.event < d.event ORDER BY o.event LIMIT 1) front ON true
LEFT JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM @schema@.delivery o WHERE o.lane = d.lane AND o.status = 'pending' AND o.ordering_key IS NULL
                   AND (o.due_at, o.id) < (d.due_at, d.id) LIMIT 1001) x) before ON true
WHERE s.event = $1
ORDER BY s.endpoint NULLS FIRST, s.delivery
LIMIT 10000)sql";

#define EVENT_COLUMNS \
    "e.id, e.event_id, e.event_type, e.content_type, e.tenant_id, e.endpoint, e.url, e.breaker_key, e.ordering_key, e.subject, e.source, e.traceparent, "        \
    "(SELECT string_agg(h, ' ' ORDER BY h) FROM jsonb_object_keys(CASE jsonb_typeof(e.headers) WHEN 'object' THEN e.headers ELSE '{}' END) h), " US("e.created_at") \
        ", " US("e.deliver_at") ", " US("e.expires_at") ", e.max_attempts, coalesce(octet_length(e.payload_bytes), octet_length(e.payload::text))"

constexpr auto list_events =
    R"sql(
SELECT )sql" EVENT_COLUMNS
    R"sql(, (SELECT string_agg(x.status || ' ' || x.n, ', ' ORDER BY x.status) FROM (SELECT s.status, count(*) AS n FROM @schema@.status s WHERE s.event = e.id GROUP BY 1) x)
FROM (SELECT f.* FROM @schema@.event f
      WHERE ($1::bigint = 0 OR f.id < $1::bigint)
        AND ($2::text IS NULL OR $2::text = '*' OR f.event_type = $2::text OR (right($2::text, 2) = '.*' AND starts_with(f.event_type, left($2::text, -1))))
        AND ($3::text IS NULL OR f.tenant_id = $3::text)
        AND ($4::bigint IS NULL OR f.created_at >= to_timestamp($4::bigint / 1000000.0)) AND ($5::bigint IS NULL OR f.created_at < to_timestamp($5::bigint / 1000000.0))
        AND (($6::text IS NULL AND $7::text IS NULL) OR EXISTS (SELECT FROM @schema@.status s WHERE s.event = f.id
             AND ($6::text IS NULL OR s.endpoint = $6::text) AND ($7::text IS NULL OR s.status = $7::text)))
      ORDER BY f.id DESC LIMIT $8) e
ORDER BY e.id DESC)sql";

constexpr auto show_event = R"sql(SELECT )sql" EVENT_COLUMNS R"sql(, NULL FROM @schema@.event e WHERE e.id = $1)sql";

// The bytes travel as hex of the bytea, since the text form of a payload in another client encoding would not be what was inserted.
constexpr auto body = R"sql(
SELECT e.payload IS NOT NULL, encode(coalesce(e.payload_bytes, convert_to(e.payload::text, 'UTF8')), 'hex') FROM @schema@.event e WHERE e.id = $1)sql";

constexpr auto list_deliveries = R"sql(
SELECT d.id, d.event, e.event_id, e.event_type, d.endpoint, d.lane, d.ordering_key, d.status, d.attempts, d.rescued, d.claimed_by, d.size,
       )sql" US("d.due_at") ", " US("d.expires_at") R"sql(, d.blocks,
       (SELECT a.error FROM @schema@.attempt a WHERE a.event = d.event AND a.delivery = d.id ORDER BY a.id DESC LIMIT 1)
FROM @schema@.delivery d LEFT JOIN @schema@.event e ON e.id = d.event
WHERE d.id > $1 AND ($2::text IS NULL OR d.endpoint = $2::text) AND ($3::text IS NULL OR d.lane = $3::text) AND ($4::text IS NULL OR d.status = $4::text)
  AND ($5::bigint IS NULL OR d.event = $5::bigint)
ORDER BY d.id LIMIT $6)sql";

constexpr auto attempts_of_event = R"sql(
SELECT a.id, a.delivery, a.event, a.endpoint, a.attempt, a.outcome, a.http_status, a.error_class, a.error, a.response_excerpt, a.duration_ms, a.dns_ms, a.connect_ms, a.tls_ms, a.first_byte_ms,
       )sql" US("a.started_at") ", " US("a.finished_at") ", " US("a.next_attempt_at") R"sql(, a.relay
FROM @schema@.attempt a WHERE a.event = $1 ORDER BY a.id LIMIT $2)sql";

constexpr auto event_of_live_delivery = R"sql(SELECT d.event FROM @schema@.delivery d WHERE d.id = $1)sql";
// History has no index by delivery (nothing hot asks for it), so this reads the table; it runs only when somebody asks for a finished delivery by its own
// number.
constexpr auto event_of_finished_delivery = R"sql(SELECT a.event FROM @schema@.attempt a WHERE a.delivery = $1 LIMIT 1)sql";

constexpr auto retry = R"sql(SELECT @schema@.retry($1::bigint))sql";
constexpr auto cancel = R"sql(SELECT @schema@.cancel($1::bigint))sql";
constexpr auto unblock = R"sql(
SELECT CASE WHEN d.id IS NULL THEN 'no such delivery' WHEN NOT d.blocks THEN 'it blocks nothing'
            WHEN @schema@.unblock(d.lane, d.ordering_key) > 0 THEN 'ok' ELSE 'it blocks nothing' END
FROM (SELECT $1::bigint AS id) a LEFT JOIN @schema@.delivery d ON d.id = a.id)sql";

// One page over events in order of id: `$7` ids are looked at, so the cost of a page is bounded whatever the filter lets through.
constexpr auto replay_scan = R"sql(
WITH page AS MATERIALIZED (SELECT f.id, f.event_id, f.event_type, f.tenant_id, f.created_at FROM @schema@.event f WHERE f.id > $1 ORDER BY f.id LIMIT $8),
     fitting AS (SELECT * FROM page f
      WHERE ($2::text IS NULL OR $2::text = '*' OR f.event_type = $2::text OR (right($2::text, 2) = '.*' AND starts_with(f.event_type, left($2::text, -1))))
        AND ($3::text IS NULL OR f.tenant_id = $3::text)
        AND ($4::bigint IS NULL OR f.created_at >= to_timestamp($4::bigint / 1000000.0)) AND ($5::bigint IS NULL OR f.created_at < to_timestamp($5::bigint / 1000000.0)))
SELECT f.id, f.event_id, f.event_type, s.status, s.endpoint, NULL::bigint, NULL::bigint
FROM fitting f CROSS JOIN LATERAL (SELECT v.status, v.endpoint FROM @schema@.status v WHERE v.event = f.id
     AND ($6::text IS NULL OR v.endpoint = $6::text) AND ($7::text IS NULL OR v.status = $7::text) OFFSET 0) s
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, max(p.id), count(*) FROM page p
ORDER BY 1 NULLS LAST, 5)sql";

// The same for status `failed`: failed deliveries keep their live row, so nobody has to walk the history.
constexpr auto replay_failed = R"sql(
WITH page AS MATERIALIZED (SELECT d.event, d.endpoint FROM @schema@.delivery d WHERE d.status = 'failed' AND d.event > $1
                           AND ($6::text IS NULL OR (d.lane = $6::text AND d.endpoint = $6::text)) AND $7::text = 'failed' ORDER BY d.event FETCH FIRST ($8) ROWS WITH TIES)
SELECT f.id, f.event_id, f.event_type, 'failed', p.endpoint, NULL::bigint, NULL::bigint
FROM page p JOIN @schema@.event f ON f.id = p.event
WHERE ($2::text IS NULL OR $2::text = '*' OR f.event_type = $2::text OR (right($2::text, 2) = '.*' AND starts_with(f.event_type, left($2::text, -1))))
  AND ($3::text IS NULL OR f.tenant_id = $3::text)
  AND ($4::bigint IS NULL OR f.created_at >= to_timestamp($4::bigint / 1000000.0)) AND ($5::bigint IS NULL OR f.created_at < to_timestamp($5::bigint / 1000000.0))
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, max(p.event), count(*) FROM page p
ORDER BY 1 NULLS LAST, 5)sql";

constexpr auto replay = R"sql(
SELECT t.event, r.delivery, r.endpoint, r.lane, r.result, (SELECT d.claimed_by FROM @schema@.delivery d WHERE d.id = r.delivery)
FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY t(event, endpoint, n) CROSS JOIN LATERAL @schema@.replay(t.event, t.endpoint) r
ORDER BY t.n)sql";

// deliver_at is past for what was sent, and an expires_at that has passed would end the copy at once: neither is copied then.
constexpr auto copy_event = R"sql(
INSERT INTO @schema@.event (event_type, payload, payload_bytes, content_type, tenant_id, endpoint, url, breaker_key, ordering_key, headers, subject, source, traceparent, tracestate, expires_at, max_attempts)
SELECT e.event_type, e.payload, e.payload_bytes, e.content_type, e.tenant_id, coalesce($2::text, e.endpoint), CASE WHEN $2::text IS NULL THEN e.url END, e.breaker_key, e.ordering_key, e.headers,
       e.subject, e.source, e.traceparent, e.tracestate, CASE WHEN e.expires_at > clock_timestamp() THEN e.expires_at END, e.max_attempts
FROM @schema@.event e WHERE e.id = $1
RETURNING event_id)sql";

// What may hold a credential stays in the database: header values, a proxy's address, keys that name a secret.
#define SAFE_SETTINGS                                                                                                                                 \
    "(SELECT coalesce(jsonb_object_agg(k, CASE "                                                                                                      \
    "WHEN k = 'headers' AND jsonb_typeof(v) = 'object' THEN (SELECT coalesce(jsonb_object_agg(h, '(set)'::text), '{}') FROM jsonb_object_keys(v) h) " \
    "WHEN k ~* '(headers|proxy|secret|token|password)' AND v NOT IN ('null', '\"\"') THEN '\"(set)\"' ELSE v END), '{}') "                            \
    "FROM jsonb_each(CASE jsonb_typeof(p.settings) WHEN 'object' THEN p.settings ELSE '{}' END) AS s(k, v))"
#define ENDPOINT_COLUMNS                                                                                                                                \
    "p.name, p.url, p.managed_by, " SAFE_SETTINGS                                                                                                       \
    "::text, p.disabled_reason, p.tenant_id, array_to_json(p.events)::text, p.enabled, p.paused, " US("p.disabled_at") ", " US("p.created_at") ", " US( \
        "p.updated_at") ", " US("p.last_success_at") ", " US("p.failing_since") ", c.state, pending.n, failed.n"
#define ENDPOINT_FROM                                                                                                                                      \
    " FROM @schema@.endpoint p LEFT JOIN @schema@.circuit c ON c.lane = p.name "                                                                           \
    "CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM @schema@.delivery d WHERE d.lane = p.name AND d.status = 'pending' AND d.ordering_key IS " \
    "NULL LIMIT 1001) x) unkeyed "                                                                                                                         \
    "CROSS JOIN LATERAL (SELECT unkeyed.n + count(*) AS n FROM (SELECT FROM @schema@.delivery d WHERE d.lane = p.name AND d.status = 'pending' AND "       \
    "d.ordering_key IS NOT NULL LIMIT 1001) x) pending "                                                                                                   \
    "CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM @schema@.delivery d WHERE d.lane = p.name AND d.status = 'failed' LIMIT 1001) x) failed "

constexpr auto list_endpoints = "SELECT " ENDPOINT_COLUMNS ENDPOINT_FROM "ORDER BY p.name LIMIT 10000";
constexpr auto show_endpoint = "SELECT " ENDPOINT_COLUMNS ENDPOINT_FROM "WHERE p.name = $1";
constexpr auto secrets = "SELECT s.id, " US("s.created_at") ", " US(
    "s.expires_at") " FROM @schema@.endpoint_secret s WHERE s.endpoint = $1 ORDER BY s.created_at DESC, s.id DESC LIMIT 100";
constexpr auto endpoint_settings = R"sql(SELECT p.settings::text FROM @schema@.endpoint p WHERE p.name = $1)sql";

constexpr auto add_endpoint = R"sql(
WITH made AS (INSERT INTO @schema@.endpoint (name, url, tenant_id, events, settings, enabled, managed_by)
              VALUES ($1, $2, $3, $4, $5, $6, 'cli') ON CONFLICT (name) DO NOTHING RETURNING name),
     kept AS (INSERT INTO @schema@.endpoint_secret (endpoint, secret) SELECT m.name, $7 FROM made m WHERE $7 IS NOT NULL)
SELECT m.name FROM made m)sql";

constexpr auto change_endpoint = R"sql(
UPDATE @schema@.endpoint p SET url = coalesce($2, p.url), settings = coalesce($3, p.settings), tenant_id = CASE WHEN $4 THEN $5 ELSE p.tenant_id END, events = coalesce($6, p.events)
WHERE p.name = $1)sql";

// Enabling forgets why it was disabled and since when it fails, so that the rule for lasting failure starts anew.
constexpr auto set_enabled = R"sql(
UPDATE @schema@.endpoint p SET enabled = $2, disabled_reason = CASE WHEN $2 THEN NULL ELSE $3 END, disabled_at = CASE WHEN $2 THEN NULL ELSE coalesce(p.disabled_at, clock_timestamp()) END,
       failing_since = CASE WHEN $2 THEN NULL ELSE p.failing_since END
WHERE p.name = $1)sql";
// An enabled endpoint has no reason but that of a pause from the file, which an operator's word replaces.
constexpr auto set_paused =
    R"sql(UPDATE @schema@.endpoint p SET paused = $2, disabled_reason = CASE WHEN p.enabled THEN NULL ELSE p.disabled_reason END WHERE p.name = $1)sql";
constexpr auto remove_endpoint = R"sql(SELECT r.cancelled, r.removed FROM @schema@.remove_endpoint($1::text) r)sql";

// One statement: the UPDATE does not see the row that the INSERT makes.
constexpr auto rotate_secret = R"sql(
WITH old AS (UPDATE @schema@.endpoint_secret s SET expires_at = least(s.expires_at, clock_timestamp() + $3) WHERE s.endpoint = $1)
INSERT INTO @schema@.endpoint_secret (endpoint, secret) SELECT p.name, $2 FROM @schema@.endpoint p WHERE p.name = $1 RETURNING id)sql";

constexpr auto endpoint_for_test = R"sql(
SELECT p.url, p.tenant_id, p.enabled, p.paused, p.disabled_reason, p.settings::text, p.managed_by FROM @schema@.endpoint p WHERE p.name = $1)sql";
constexpr auto secrets_for_test = R"sql(
SELECT s.secret, CASE WHEN isfinite(s.expires_at) THEN (extract(epoch FROM s.expires_at - clock_timestamp()) * 1000)::bigint END FROM @schema@.endpoint_secret s
WHERE s.endpoint = $1 AND (s.expires_at IS NULL OR s.expires_at > clock_timestamp()) ORDER BY s.created_at DESC, s.id DESC LIMIT 100)sql";

constexpr auto purge = R"sql(SELECT p.events, p.deliveries, p.attempts FROM @schema@.purge($1, $2, $3, $4) p)sql";
constexpr auto purge_position = R"sql(
SELECT coalesce((m.state ->> 'at')::bigint, 0), coalesce((m.state ->> 'attempt_at')::bigint, 0),
       coalesce((extract(epoch FROM m.last_run) * 1000000)::bigint, 0) FROM @schema@.maintenance m WHERE m.name = 'retention')sql";

}  // namespace

operator_statements::operator_statements(std::string_view schema)
    : totals(with_schema(postgres::totals, schema)),
      rates(with_schema(postgres::rates, schema)),
      relays(with_schema(postgres::relays, schema)),
      circuits(with_schema(postgres::circuits, schema)),
      lanes(with_schema(postgres::lanes, schema)),
      blocked_keys(with_schema(postgres::blocked_keys, schema)),
      find_event(with_schema(postgres::find_event, schema)),
      why(with_schema(postgres::why, schema)),
      list_events(with_schema(postgres::list_events, schema)),
      show_event(with_schema(postgres::show_event, schema)),
      body(with_schema(postgres::body, schema)),
      list_deliveries(with_schema(postgres::list_deliveries, schema)),
      attempts_of_event(with_schema(postgres::attempts_of_event, schema)),
      event_of_live_delivery(with_schema(postgres::event_of_live_delivery, schema)),
      event_of_finished_delivery(with_schema(postgres::event_of_finished_delivery, schema)),
      retry(with_schema(postgres::retry, schema)),
      cancel(with_schema(postgres::cancel, schema)),
      unblock(with_schema(postgres::unblock, schema)),
      replay_scan(with_schema(postgres::replay_scan, schema)),
      replay_failed(with_schema(postgres::replay_failed, schema)),
      replay(with_schema(postgres::replay, schema)),
      copy_event(with_schema(postgres::copy_event, schema)),
      list_endpoints(with_schema(postgres::list_endpoints, schema)),
      show_endpoint(with_schema(postgres::show_endpoint, schema)),
      secrets(with_schema(postgres::secrets, schema)),
      endpoint_settings(with_schema(postgres::endpoint_settings, schema)),
      add_endpoint(with_schema(postgres::add_endpoint, schema)),
      change_endpoint(with_schema(postgres::change_endpoint, schema)),
      set_enabled(with_schema(postgres::set_enabled, schema)),
      set_paused(with_schema(postgres::set_paused, schema)),
      remove_endpoint(with_schema(postgres::remove_endpoint, schema)),
      rotate_secret(with_schema(postgres::rotate_secret, schema)),
      endpoint_for_test(with_schema(postgres::endpoint_for_test, schema)),
      secrets_for_test(with_schema(postgres::secrets_for_test, schema)),
      purge(with_schema(postgres::purge, schema)),
      purge_position(with_schema(postgres::purge_position, schema)) {}

}  // namespace outboxd::postgres
