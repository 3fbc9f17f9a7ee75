#include "postgres/sync_statements.hpp"

#include "postgres/statements.hpp"

namespace outboxd::postgres {

namespace {

// Locks one row; says whether it was new, changed or left alone (no row). What the file itself disabled or paused it takes back; any other reason stays.
constexpr std::string_view upsert_text = R"(
INSERT INTO @schema@.endpoint AS e (name, url, tenant_id, events, settings, managed_by, enabled, paused, disabled_reason, disabled_at)
VALUES ($1, $2, $3, $4, $5, 'config', $6, $7, CASE WHEN NOT $6 THEN $8 WHEN $7 THEN $9 END, CASE WHEN NOT $6 THEN clock_timestamp() END)
ON CONFLICT (name) DO UPDATE SET
    url = excluded.url, tenant_id = excluded.tenant_id, events = excluded.events, settings = excluded.settings, managed_by = 'config', updated_at = clock_timestamp(),
    enabled = $6 AND (e.enabled OR coalesce(e.disabled_reason IN ($8, $10), false)),
    paused = $7 OR (e.paused AND e.disabled_reason IS DISTINCT FROM $9),
    disabled_reason = CASE WHEN NOT $6 THEN CASE WHEN e.enabled THEN $8 ELSE e.disabled_reason END
                           WHEN NOT e.enabled AND e.disabled_reason IS DISTINCT FROM $8 AND e.disabled_reason IS DISTINCT FROM $10 THEN e.disabled_reason
                           WHEN $7 AND NOT e.paused THEN $9
                           WHEN e.paused AND $7 THEN e.disabled_reason END,
    disabled_at = CASE WHEN NOT $6 AND e.enabled THEN clock_timestamp() WHEN $6 AND coalesce(e.disabled_reason IN ($8, $10), false) THEN NULL ELSE e.disabled_at END
WHERE (e.url, e.tenant_id, e.events, e.settings, e.managed_by) IS DISTINCT FROM (excluded.url, excluded.tenant_id, excluded.events, excluded.settings, 'config')
   OR (e.enabled AND NOT $6) OR (NOT e.enabled AND $6 AND coalesce(e.disabled_reason IN ($8, $10), false))
   OR (NOT e.paused AND $7) OR (e.paused AND NOT $7 AND e.disabled_reason IS NOT DISTINCT FROM $9)
RETURNING xmax = 0)";

// The secrets of one endpoint are replaced as a whole when they differ in any way: the newest stands first, by created_at.
constexpr std::string_view drop_secrets_text = R"(
DELETE FROM @schema@.endpoint_secret WHERE endpoint = $1 AND (
    SELECT array_agg(CASE WHEN expires_at IS NULL THEN secret ELSE secret || ' expires' END ORDER BY created_at DESC, id DESC) FROM @schema@.endpoint_secret WHERE endpoint = $1) IS DISTINCT FROM $2)";
constexpr std::string_view add_secrets_text = R"(
INSERT INTO @schema@.endpoint_secret (endpoint, secret, created_at)
SELECT $1, u.secret, clock_timestamp() - u.nth * interval '1 millisecond' FROM unnest($2) WITH ORDINALITY u(secret, nth)
WHERE NOT EXISTS (SELECT FROM @schema@.endpoint_secret WHERE endpoint = $1))";

constexpr std::string_view remove_text = R"(
UPDATE @schema@.endpoint SET enabled = false, disabled_reason = $2, disabled_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE managed_by = 'config' AND enabled AND NOT (name = ANY ($1)) RETURNING name)";

constexpr std::string_view setting_text = R"(
INSERT INTO @schema@.setting AS s (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE s.value <> excluded.value)";

}  // namespace

sync_statements::sync_statements(std::string_view schema)
    : foreign_names(with_schema("SELECT name FROM @schema@.endpoint WHERE managed_by <> 'config' ORDER BY name", schema)),
      write_endpoint(with_schema(upsert_text, schema)),
      drop_secrets(with_schema(drop_secrets_text, schema)),
      add_secrets(with_schema(add_secrets_text, schema)),
      disable_absent(with_schema(remove_text, schema)),
      write_setting(with_schema(setting_text, schema)) {}

}  // namespace outboxd::postgres
