#include "postgres/statements.hpp"

namespace outboxd::postgres {

namespace {

constexpr std::string_view claim_text = "SELECT * FROM @schema@.claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";

constexpr std::string_view load_endpoints_text = R"(
SELECT e.name, e.url, e.tenant_id, e.enabled, e.paused, e.disabled_reason, e.settings::text, e.managed_by, s.secret,
       CASE WHEN isfinite(s.expires_at) THEN (extract(epoch FROM s.expires_at - clock_timestamp()) * 1000)::bigint END,
       CASE WHEN isfinite(e.failing_since) THEN (extract(epoch FROM clock_timestamp() - e.failing_since) * 1000)::bigint END
FROM @schema@.endpoint e
LEFT JOIN @schema@.endpoint_secret s ON s.endpoint = e.name AND (s.expires_at IS NULL OR s.expires_at > clock_timestamp())
ORDER BY e.name, s.created_at DESC, s.id DESC)";

constexpr std::string_view circuit_columns = R"(lane, state, greatest(0, (extract(epoch FROM open_until - clock_timestamp()) * 1000)::bigint), last_error)";

// At most 20,000 rows of the live table are looked at; a larger one is estimated from them and from the planner's row count. The oldest due row is read from the head of each lane's index, at most 200 lanes.
constexpr std::string_view count_text = R"(
WITH RECURSIVE sample AS MATERIALIZED (
    SELECT d.status, d.claimed_by, d.due_at FROM @schema@.delivery d LIMIT 20000
), seen AS (
    SELECT count(*) FILTER (WHERE status = 'pending' AND claimed_by IS NULL AND due_at <= clock_timestamp()) AS due,
           count(*) FILTER (WHERE status = 'pending' AND claimed_by IS NULL AND due_at > clock_timestamp()) AS scheduled,
           count(*) FILTER (WHERE status = 'pending' AND claimed_by IS NOT NULL) AS claimed,
           count(*) FILTER (WHERE status = 'failed') AS failed, count(*) FILTER (WHERE status = 'unrouted') AS unrouted, count(*) AS n,
           min(due_at) FILTER (WHERE status = 'pending' AND claimed_by IS NULL AND due_at <= clock_timestamp()) AS oldest
    FROM sample
), scale AS (
    SELECT CASE WHEN s.n < 20000 THEN 1.0 ELSE greatest(1.0, (SELECT c.reltuples FROM pg_catalog.pg_class c WHERE c.oid = '@schema@.delivery'::regclass) / s.n) END AS by FROM seen s
), lanes AS (
    (SELECT d.lane, d.due_at, 1 AS nth FROM @schema@.delivery d WHERE d.status = 'pending' AND d.ordering_key IS NULL AND d.claimed_by IS NULL ORDER BY d.lane, d.due_at, d.id LIMIT 1)
    UNION ALL
    SELECT n.lane, n.due_at, l.nth + 1 FROM lanes l CROSS JOIN LATERAL (
        SELECT d.lane, d.due_at FROM @schema@.delivery d
        WHERE d.status = 'pending' AND d.ordering_key IS NULL AND d.lane > l.lane AND d.claimed_by IS NULL ORDER BY d.lane, d.due_at, d.id LIMIT 1) n
    WHERE l.nth < 200)
SELECT (due * by)::bigint, (scheduled * by)::bigint, (claimed * by)::bigint, (failed * by)::bigint, (unrouted * by)::bigint,
       coalesce(extract(epoch FROM clock_timestamp() - least(oldest, (SELECT min(due_at) FROM lanes WHERE due_at <= clock_timestamp()))), 0)::float8,
       (SELECT count(DISTINCT (b.lane, b.ordering_key)) FROM (SELECT d.lane, d.ordering_key FROM @schema@.delivery d WHERE d.blocks LIMIT 20000) b)
FROM seen, scale)";

// More dead rows than autovacuum leaves in its worst hour, and the oldest transaction that may still want to see them. Sessions of other roles show their transactions only to members of pg_read_all_stats.
constexpr std::string_view dead_rows_text = R"(
WITH pile AS (
    SELECT t.relname, t.n_dead_tup, greatest(t.last_autovacuum, t.last_vacuum) AS vacuumed FROM pg_catalog.pg_stat_all_tables t
    WHERE t.relid IN (SELECT c.oid FROM pg_catalog.pg_class c WHERE c.relnamespace = to_regnamespace('@schema@') AND c.relkind = 'r')
      AND t.n_dead_tup > 20000 + t.n_live_tup / 5
    ORDER BY t.n_dead_tup DESC LIMIT 1
), holder AS (
    SELECT greatest(age(a.backend_xid), age(a.backend_xmin)) AS transactions,
           'session ' || a.pid || ' of role ' || coalesce(a.usename, '?') || coalesce(' (' || nullif(a.application_name, '') || ')', '') || ', ' || coalesce(a.state, a.backend_type)
           || coalesce(', whose transaction is ' || date_trunc('second', clock_timestamp() - a.xact_start) || ' old', '') AS who
    FROM pg_catalog.pg_stat_activity a
    WHERE a.pid <> pg_backend_pid() AND (a.datname = current_database() OR a.datname IS NULL) AND a.backend_type <> 'autovacuum worker'
      AND coalesce(a.backend_xid, a.backend_xmin) IS NOT NULL
    UNION ALL
    SELECT age(p.transaction), 'prepared transaction ' || p.gid || ' of role ' || p.owner || ', ' || date_trunc('second', clock_timestamp() - p.prepared) || ' old: COMMIT PREPARED or ROLLBACK PREPARED it'
    FROM pg_catalog.pg_prepared_xacts p WHERE p.database = current_database()
    UNION ALL
    SELECT age(s.xmin), 'replication slot ' || s.slot_name || CASE WHEN s.active THEN '' ELSE ', which nobody reads' END FROM pg_catalog.pg_replication_slots s WHERE s.xmin IS NOT NULL
)
SELECT p.relname::text, p.n_dead_tup,
       coalesce((SELECT h.who FROM holder h ORDER BY h.transactions DESC LIMIT 1),
                CASE WHEN current_setting('autovacuum') = 'off' THEN 'nobody: autovacuum is off'
                     WHEN NOT pg_has_role('pg_read_all_stats', 'MEMBER') THEN 'a session that this role may not see: GRANT pg_read_all_stats shows it'
                     ELSE 'nobody: autovacuum does not keep up' END)
FROM pile p)";

constexpr std::string_view vacuum_hints_text = R"(
SELECT 'autovacuum is off on this server: these tables need it' AS text WHERE current_setting('autovacuum') = 'off'
UNION ALL SELECT 'track_counts is off on this server, so autovacuum never comes' WHERE current_setting('track_counts') = 'off'
UNION ALL SELECT 'autovacuum is off for table ' || c.relname FROM pg_catalog.pg_class c
    WHERE c.relnamespace = to_regnamespace('@schema@') AND c.relkind = 'r' AND c.reloptions && '{autovacuum_enabled=false,autovacuum_enabled=off,autovacuum_enabled=0}'
UNION ALL SELECT 'table ' || c.relname || ' has lost the storage options of its migration (a restore?): autovacuum comes too late' FROM pg_catalog.pg_class c
    WHERE c.relnamespace = to_regnamespace('@schema@') AND c.relname IN ('delivery', 'relay') AND c.relkind = 'r'
      AND NOT coalesce(c.reloptions, '{}') @> '{autovacuum_vacuum_scale_factor=0}')";

// What claim and settle rely on. Added columns are harmless; a missing or retyped one, a view in a table's place or a lost key is not.
constexpr std::string_view shape_text = R"(
WITH wanted(relation, attribute, kind) AS (VALUES
    ('event','id','bigint'),('event','event_id','text'),('event','event_type','text'),('event','payload','json'),('event','payload_bytes','bytea'),('event','content_type','text'),
    ('event','tenant_id','text'),('event','endpoint','text'),('event','url','text'),('event','breaker_key','text'),('event','ordering_key','text'),('event','headers','jsonb'),
    ('event','subject','text'),('event','source','text'),('event','traceparent','text'),('event','tracestate','text'),('event','deliver_at','timestamp with time zone'),
    ('event','expires_at','timestamp with time zone'),('event','max_attempts','smallint'),('event','created_at','timestamp with time zone'),
    ('delivery','id','bigint'),('delivery','event','bigint'),('delivery','due_at','timestamp with time zone'),('delivery','expires_at','timestamp with time zone'),('delivery','claimed_by','bigint'),
    ('delivery','size','integer'),('delivery','attempts','integer'),('delivery','rescued','integer'),('delivery','max_attempts','smallint'),('delivery','blocks','boolean'),('delivery','status','text'),
    ('delivery','lane','text'),('delivery','endpoint','text'),('delivery','ordering_key','text'),('delivery','format','text'),('delivery','fan_after','text'),
    ('attempt','delivery','bigint'),('attempt','event','bigint'),('attempt','outcome','text'),('attempt','attempt','integer'),('attempt','started_at','timestamp with time zone'),
    ('attempt','finished_at','timestamp with time zone'),('attempt','relay','bigint'),
    ('endpoint','name','text'),('endpoint','url','text'),('endpoint','enabled','boolean'),('endpoint','paused','boolean'),('endpoint','settings','jsonb'),('endpoint','managed_by','text'),
    ('endpoint_secret','endpoint','text'),('endpoint_secret','secret','text'),('endpoint_secret','expires_at','timestamp with time zone'),
    ('relay','id','bigint'),('relay','lease_until','timestamp with time zone'),('relay','epoch','integer'),('relay','wake','boolean'),
    ('circuit','lane','text'),('circuit','state','text'),('circuit','open_until','timestamp with time zone')
), relations AS (
    SELECT DISTINCT w.relation, c.oid, c.relkind FROM wanted w
    LEFT JOIN pg_catalog.pg_class c ON c.relname = w.relation AND c.relnamespace = to_regnamespace('@schema@')
), functions(name, arguments) AS (VALUES
    ('claim','bigint,integer,text[],integer[],timestamp with time zone[],bigint[],text[],text[],text,integer,integer,integer,bigint,integer'),
    ('settle','bigint,bigint[],text[],boolean[],integer[],text[],text[],text[],integer[],integer[],bigint[],integer[],text[],boolean[]'),
    ('register_relay','text,text,integer,text,interval'),('beat','bigint,interval,integer,boolean,jsonb'),('bump_epoch','bigint'),('set_wake','bigint,boolean'),
    ('release_unknown','bigint,bigint[]'),('retire_relay','bigint'),('rescue','bigint,integer,integer'),('route','integer,interval'),('sweep','integer,interval'),
    ('purge','interval,interval,interval,integer'),('endpoint_health','text[],bigint[],bigint[],bigint[]'),('circuit_trip','text,integer,interval,interval,text'),('circuit_probe','text,bigint,integer,interval'),
    ('circuit_result','text,bigint,boolean,integer,interval,interval,text'),('endpoint_digest','')
)
SELECT text FROM (
    SELECT 1 AS nth, 'table ' || relation || ' is missing' AS text FROM relations WHERE oid IS NULL
    UNION ALL SELECT 2, relation || ' is no table' FROM relations WHERE oid IS NOT NULL AND relkind NOT IN ('r', 'p')
    UNION ALL SELECT 3, 'column ' || w.relation || '.' || w.attribute || CASE WHEN a.attname IS NULL THEN ' is missing' ELSE ' is ' || format_type(a.atttypid, a.atttypmod) || ' and not ' || w.kind END
        FROM wanted w JOIN relations r ON r.relation = w.relation AND r.oid IS NOT NULL
        LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attname = w.attribute AND NOT a.attisdropped
        WHERE a.attname IS NULL OR format_type(a.atttypid, a.atttypmod) <> w.kind
    UNION ALL SELECT 4, 'column ' || r.relation || '.id has no unique index' FROM relations r
        WHERE r.relation IN ('event', 'delivery', 'relay') AND r.oid IS NOT NULL AND r.relkind IN ('r', 'p') AND NOT EXISTS (
            SELECT FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attname = 'id' AND i.indkey[0] = a.attnum
            WHERE i.indrelid = r.oid AND i.indisunique AND i.indisvalid AND i.indnkeyatts = 1 AND i.indpred IS NULL)
    UNION ALL SELECT 5, 'function ' || f.name || '(' || f.arguments || ') is missing' FROM functions f
        WHERE to_regnamespace('@schema@') IS NOT NULL AND to_regprocedure('@schema@.' || f.name || '(' || f.arguments || ')') IS NULL
    UNION ALL SELECT 6, 'the role may not ' || lower(p.privilege) || ' ' || r.relation FROM relations r CROSS JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) p(privilege)
        WHERE r.oid IS NOT NULL AND r.relation <> 'event' AND NOT has_table_privilege(r.oid, p.privilege)
    UNION ALL SELECT 6, 'the role may not select event' FROM relations r WHERE r.relation = 'event' AND r.oid IS NOT NULL AND NOT has_table_privilege(r.oid, 'SELECT')
    UNION ALL SELECT 7, 'the role may not call ' || f.name FROM functions f
        WHERE NOT has_function_privilege(to_regprocedure('@schema@.' || f.name || '(' || f.arguments || ')'), 'EXECUTE')
) problems ORDER BY nth, text LIMIT 5)";

std::string call(std::string_view schema, std::string_view text) { return with_schema(text, schema); }

}  // namespace

std::string quote_identifier(std::string_view name) {
    std::string quoted = "\"";
    for (const char c : name) {
        if (c == '"') quoted.push_back('"');
        quoted.push_back(c);
    }
    quoted.push_back('"');
    return quoted;
}

std::string with_schema(std::string_view text, std::string_view schema) {
    constexpr std::string_view mark = "@schema@";
    const auto name = quote_identifier(schema);
    std::string done;
    for (;;) {
        const auto at = text.find(mark);
        done.append(text.substr(0, at));
        if (at == std::string_view::npos) return done;
        done.append(name);
        text.remove_prefix(at + mark.size());
    }
}

std::string wake_channel(std::string_view schema) { return std::string{schema.substr(0, 58)} + "_wake"; }

statements::statements(std::string_view schema)
    : claim(call(schema, claim_text)),
      bump_epoch(call(schema, "SELECT @schema@.bump_epoch($1)")),
      release_unknown(call(schema, "SELECT @schema@.release_unknown($1, $2)")),
      settle(call(schema, "SELECT * FROM @schema@.settle($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)")),
      register_relay(call(schema, "SELECT r.id, r.epoch FROM @schema@.register_relay($1, $2, $3, $4, $5) r")),
      beat(call(schema, "SELECT b.alive, b.live_relays, b.server_now FROM @schema@.beat($1, $2, $3, $4, $5) b")),
      set_wake(call(schema, "SELECT @schema@.set_wake($1, $2)")),
      retire_relay(call(schema, "SELECT @schema@.retire_relay($1)")),
      endpoint_digest(call(schema, "SELECT @schema@.endpoint_digest()")),
      load_endpoints(call(schema, load_endpoints_text)),
      disable_endpoint(call(schema, "UPDATE @schema@.endpoint SET enabled = false, disabled_reason = $2, disabled_at = clock_timestamp(), updated_at = clock_timestamp() WHERE name = $1 AND enabled")),
      endpoint_health(call(schema, "SELECT h.name, h.reason FROM @schema@.endpoint_health($1, $2, $3, $4) h")),
      load_circuits(call(schema, "SELECT " + std::string{circuit_columns} + " FROM @schema@.circuit")),
      circuit_trip(call(schema, "SELECT " + std::string{circuit_columns} + " FROM @schema@.circuit_trip($1, $2, $3, $4, $5)")),
      circuit_probe(call(schema, "SELECT @schema@.circuit_probe($1, $2, $3, $4)")),
      circuit_result(call(schema, "SELECT @schema@.circuit_result($1, $2, $3, $4, $5, $6, $7)")),
      rescue(call(schema, "SELECT r.delivery, r.lane, r.dead_relay, r.outcome FROM @schema@.rescue($1, $2, $3) r")),
      route(call(schema, "SELECT r.routed, r.remaining FROM @schema@.route($1, $2) r")),
      sweep(call(schema, "SELECT @schema@.sweep($1)")),
      purge(call(schema, "SELECT p.events + p.deliveries + p.attempts FROM @schema@.purge($1, $2, $3, $4) p")),
      count(call(schema, count_text)),
      dead_rows(call(schema, dead_rows_text)),
      vacuum_hints(call(schema, vacuum_hints_text)),
      probe_wakeup("SELECT pg_notify($1, $2)"),
      schema_version(call(schema, "SELECT coalesce(max(version), 0) FROM @schema@.migration")),
      server_facts("SELECT current_setting('server_encoding'), pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'"),
      shape(call(schema, shape_text)) {}

}  // namespace outboxd::postgres
