-- The tables. Applications write `event` and nothing else; everything else belongs to the relays.
--
-- The shape follows three measurements: a wide row that is updated to claim and to publish costs 3.8 kB of WAL per
-- event, a narrow live row beside an insert-only event 0.6 kB; a claim that touches an indexed column is never a HOT
-- update; and a queue table that autovacuum visits by percentage is visited too late.

-- Whether an event can be delivered and indexed. One function, because a CHECK is parsed and planned anew by every INSERT:
-- ten of them cost an application as much as the rest of its row. Says which rule is broken, and never a value: it may be
-- a secret, and errors go to logs.
CREATE FUNCTION @schema@.event_is_sound(
    p_event_id text, p_event_type text, p_payload boolean, p_payload_bytes boolean, p_tenant_id text, p_endpoint text,
    p_url text, p_breaker_key text, p_ordering_key text, p_max_attempts int)
RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, @schema@, pg_temp AS $$
DECLARE
    v_rule text;
    v_fact text;
BEGIN
    -- The usual case in one expression; greatest() and least() pass over NULL.
    IF p_payload <> p_payload_bytes AND num_nonnulls(p_endpoint, p_url) <= 1
       AND greatest(char_length(p_event_id) + 127, char_length(p_event_type), char_length(p_tenant_id), char_length(p_endpoint),
                    char_length(p_breaker_key), char_length(p_ordering_key)) <= 255
       AND least(char_length(p_event_type), char_length(p_tenant_id), char_length(p_endpoint), char_length(p_breaker_key),
                 char_length(p_ordering_key), p_max_attempts) >= 1
       AND (p_url IS NULL OR char_length(p_url) <= 8192)
       AND p_event_type !~ '[[:cntrl:]]' AND p_event_id ~ '^[A-Za-z0-9_-]+$' THEN
        RETURN true;
    END IF;
    SELECT r.rule, r.fact INTO v_rule, v_fact
    FROM (VALUES
        ('event_id_is_1_to_128_of_letters_digits_underscore_hyphen',
         char_length(p_event_id) > 128 OR p_event_id !~ '^[A-Za-z0-9_-]+$', 'event_id has ' || char_length(p_event_id) || ' characters'),
        ('event_type_is_1_to_255_characters_without_controls',
         char_length(p_event_type) NOT BETWEEN 1 AND 255 OR p_event_type ~ '[[:cntrl:]]', 'event_type has ' || char_length(p_event_type) || ' characters'),
        ('event_exactly_one_body', p_payload = p_payload_bytes,
         CASE WHEN p_payload THEN 'payload and payload_bytes are both given' ELSE 'neither payload nor payload_bytes is given' END),
        ('event_at_most_one_of_endpoint_and_url', num_nonnulls(p_endpoint, p_url) > 1, 'endpoint and url are both given'),
        ('event_tenant_id_is_1_to_255_characters', char_length(p_tenant_id) NOT BETWEEN 1 AND 255, 'tenant_id has ' || char_length(p_tenant_id) || ' characters'),
        ('event_endpoint_is_1_to_255_characters', char_length(p_endpoint) NOT BETWEEN 1 AND 255, 'endpoint has ' || char_length(p_endpoint) || ' characters'),
        ('event_breaker_key_is_1_to_255_characters', char_length(p_breaker_key) NOT BETWEEN 1 AND 255, 'breaker_key has ' || char_length(p_breaker_key) || ' characters'),
        ('event_ordering_key_is_1_to_255_characters', char_length(p_ordering_key) NOT BETWEEN 1 AND 255, 'ordering_key has ' || char_length(p_ordering_key) || ' characters'),
        ('event_url_is_at_most_8192_characters', char_length(p_url) > 8192, 'url has ' || char_length(p_url) || ' characters'),
        ('event_max_attempts_is_at_least_1', p_max_attempts < 1, 'max_attempts is ' || p_max_attempts)) AS r(rule, broken, fact)
    WHERE r.broken LIMIT 1;
    IF v_rule IS NULL THEN
        RETURN true;  -- a NULL where none may be: NOT NULL says it better
    END IF;
    RAISE EXCEPTION 'new row for relation "event" violates check constraint "%"', v_rule
        USING ERRCODE = 'check_violation', DETAIL = v_fact || '.', TABLE = 'event', CONSTRAINT = v_rule;
END $$;

-- What the application inserts. Rows never change: body and keys of every attempt come from here, so that each attempt
-- carries the same bytes. Text columns that reach an index are bounded, because an index row that is too long would make
-- the application's INSERT fail in a place it cannot understand. Headers, url syntax, content type and trace context are
-- not checked here: a bad one ends the delivery `failed` with a reason and does not break the application.
CREATE TABLE @schema@.event (
    id            bigint GENERATED ALWAYS AS IDENTITY,
    event_id      text        NOT NULL DEFAULT gen_random_uuid()::text,
    event_type    text        NOT NULL,
    payload       json,
    payload_bytes bytea,
    content_type  text,
    tenant_id     text,
    endpoint      text,
    url           text,
    breaker_key   text,
    ordering_key  text,
    headers       jsonb,
    subject       text,
    source        text,
    traceparent   text,
    tracestate    text,
    deliver_at    timestamptz,
    expires_at    timestamptz,
    max_attempts  smallint,
    created_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT event_pkey PRIMARY KEY (id),
    CONSTRAINT event_event_id_is_unique UNIQUE (event_id),
    CONSTRAINT event_is_sound CHECK (@schema@.event_is_sound(
        event_id, event_type, payload IS NOT NULL, payload_bytes IS NOT NULL, tenant_id, endpoint, url, breaker_key,
        ordering_key, max_attempts))
);

-- Live work only. There is no foreign key to event on purpose: each insert would lock the event row, and retention
-- deletes an event only when no delivery is left. Fixed-width columns stand first, so that no padding is stored.
-- claimed_by stands in no index and in no index predicate, and a little more than half of each page is left free: a claim
-- then is a HOT update even when a whole page is claimed at once (the new version is 8 bytes longer, hence 45, not 50).
-- A row becomes claimable only with due_at >= clock_timestamp() of that moment (trigger, retry, release, rescue, replay,
-- routing all take greatest(wanted, clock_timestamp())), so that a relay may remember where the last claim ended.
CREATE TABLE @schema@.delivery (
    id           bigint GENERATED ALWAYS AS IDENTITY,
    event        bigint      NOT NULL,
    due_at       timestamptz NOT NULL,
    expires_at   timestamptz,
    claimed_by   bigint,
    size         int         NOT NULL DEFAULT 0,
    attempts     int         NOT NULL DEFAULT 0,
    rescued      int         NOT NULL DEFAULT 0,
    max_attempts smallint,
    blocks       boolean     NOT NULL DEFAULT false,
    status       text COLLATE "C" NOT NULL DEFAULT 'pending',
    lane         text COLLATE "C" NOT NULL,
    endpoint     text COLLATE "C",
    ordering_key text COLLATE "C",
    format       text COLLATE "C",
    fan_after    text COLLATE "C",
    CONSTRAINT delivery_pkey PRIMARY KEY (id),
    CONSTRAINT delivery_status_is_known CHECK (status IN ('pending', 'failed', 'unrouted'))
) WITH (
    fillfactor = 45,
    -- A queue is small and turns over quickly: vacuum after a fixed number of dead rows, at full speed, and never give
    -- the tail back, since truncation takes an exclusive lock and the space is wanted again at once.
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000,
    autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off
);
COMMENT ON COLUMN @schema@.delivery.lane IS 'the endpoint''s name, or url: and the breaker key or origin of a direct URL; empty while unrouted';
COMMENT ON COLUMN @schema@.delivery.format IS 'body format pinned at the first attempt, so that a later change of settings does not change the bytes';
COMMENT ON COLUMN @schema@.delivery.blocks IS 'a failed row that still holds its ordering key back (on_failed: block)';
COMMENT ON COLUMN @schema@.delivery.fan_after IS 'set while the daemon fans this event out: the last endpoint name done';

-- Exactly one delivery per event and endpoint, whoever fans out.
CREATE UNIQUE INDEX delivery_once ON @schema@.delivery (event, coalesce(endpoint, ''));
-- The claim reads these two from the front and never sorts.
CREATE INDEX delivery_due ON @schema@.delivery (lane, due_at, id) WHERE status = 'pending' AND ordering_key IS NULL;
CREATE INDEX delivery_key ON @schema@.delivery (lane, ordering_key, event)
    WHERE ordering_key IS NOT NULL AND (status = 'pending' OR blocks);
-- The few keys that wait for an operator, for the list of them and its metric.
CREATE INDEX delivery_blocking ON @schema@.delivery (lane, ordering_key, event) WHERE blocks;
CREATE INDEX delivery_failed ON @schema@.delivery (lane, event) WHERE status = 'failed';
-- Routing: what is due, a walk in order of insertion, and whether an ordering key has an event waiting.
CREATE INDEX delivery_unrouted_due ON @schema@.delivery (due_at, event) WHERE status = 'unrouted';
CREATE INDEX delivery_unrouted ON @schema@.delivery (event) WHERE status = 'unrouted';
CREATE INDEX delivery_unrouted_key ON @schema@.delivery (ordering_key) WHERE status = 'unrouted' AND ordering_key IS NOT NULL;

-- History: one row per attempt and per final decision; append-only. An event that was fanned out has a delivery row or a
-- final row here, which is how the sweep knows the events nobody has fanned out.
CREATE TABLE @schema@.attempt (
    id               bigint GENERATED ALWAYS AS IDENTITY,
    delivery         bigint      NOT NULL,
    event            bigint      NOT NULL,
    started_at       timestamptz NOT NULL,
    finished_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_attempt_at  timestamptz,
    relay            bigint,
    attempt          int         NOT NULL,
    http_status      int,
    duration_ms      int,
    dns_ms           int,
    connect_ms       int,
    tls_ms           int,
    first_byte_ms    int,
    outcome          text COLLATE "C" NOT NULL,
    endpoint         text COLLATE "C",
    error_class      text COLLATE "C",
    error            text,
    response_excerpt text,
    CONSTRAINT attempt_pkey PRIMARY KEY (id),
    CONSTRAINT attempt_outcome_is_known
        CHECK (outcome IN ('published', 'retried', 'failed', 'expired', 'cancelled', 'lost'))
) WITH (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
        autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX attempt_event ON @schema@.attempt (event);

CREATE TABLE @schema@.endpoint (
    name            text COLLATE "C" NOT NULL,
    url             text        NOT NULL,
    tenant_id       text,
    events          text[]      NOT NULL DEFAULT '{*}',
    enabled         boolean     NOT NULL DEFAULT true,
    paused          boolean     NOT NULL DEFAULT false,
    disabled_reason text,
    disabled_at     timestamptz,
    settings        jsonb       NOT NULL DEFAULT '{}',
    managed_by      text        NOT NULL DEFAULT 'sql',
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Written by relays, on change only; no reason to read an endpoint anew.
    last_success_at timestamptz,
    failing_since   timestamptz,
    CONSTRAINT endpoint_pkey PRIMARY KEY (name),
    CONSTRAINT endpoint_name_is_1_to_64_of_letters_digits_dot_dash_underscore
        CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$'),
    CONSTRAINT endpoint_tenant_id_is_1_to_255_characters CHECK (char_length(tenant_id) BETWEEN 1 AND 255)
);

CREATE TABLE @schema@.endpoint_secret (
    id         bigint GENERATED ALWAYS AS IDENTITY,
    endpoint   text COLLATE "C" NOT NULL,
    secret     text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz,
    CONSTRAINT endpoint_secret_pkey PRIMARY KEY (id),
    CONSTRAINT endpoint_secret_belongs_to_an_endpoint FOREIGN KEY (endpoint)
        REFERENCES @schema@.endpoint (name) ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE INDEX endpoint_secret_endpoint ON @schema@.endpoint_secret (endpoint);

-- Derived from endpoint by a trigger: one row per pattern, so that matching an event is a few index look-ups however
-- many endpoints there are. The tenant stands in the key ('' = sees all tenants), because one endpoint with '*' per
-- tenant is the usual case, and then every event would visit every endpoint.
CREATE TABLE @schema@.subscription (
    pattern   text COLLATE "C" NOT NULL,
    tenant_id text COLLATE "C" NOT NULL,
    endpoint  text COLLATE "C" NOT NULL,
    CONSTRAINT subscription_pkey PRIMARY KEY (pattern, tenant_id, endpoint)
);
CREATE INDEX subscription_endpoint ON @schema@.subscription (endpoint);

-- No row means closed. Shared by all relays and outlives them.
CREATE TABLE @schema@.circuit (
    lane        text COLLATE "C" NOT NULL,
    state       text COLLATE "C" NOT NULL,
    failures    int         NOT NULL DEFAULT 0,
    successes   int         NOT NULL DEFAULT 0,
    opens       int         NOT NULL DEFAULT 1,
    probes      int         NOT NULL DEFAULT 0,
    opened_at   timestamptz NOT NULL,
    open_until  timestamptz NOT NULL,
    probe_until timestamptz,
    probe_by    bigint,
    changed_at  timestamptz NOT NULL,
    last_error  text,
    CONSTRAINT circuit_pkey PRIMARY KEY (lane),
    CONSTRAINT circuit_state_is_known CHECK (state IN ('open', 'half_open'))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Relay ids come from a sequence and are never used again: a host name or a pid would be, and then a newcomer would own
-- a dead relay's claims.
CREATE SEQUENCE @schema@.relay_id AS bigint;
CREATE TABLE @schema@.relay (
    id          bigint      NOT NULL DEFAULT nextval('@schema@.relay_id'),
    lease_until timestamptz NOT NULL,
    started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    epoch       int         NOT NULL DEFAULT 0,
    pid         int,
    in_flight   int         NOT NULL DEFAULT 0,
    wake        boolean     NOT NULL DEFAULT false,
    listening   boolean     NOT NULL DEFAULT false,
    name        text        NOT NULL,
    host        text,
    version     text,
    info        jsonb,
    CONSTRAINT relay_pkey PRIMARY KEY (id)
) WITH (
    -- One heartbeat row per relay, updated for ever: keep it on one page by HOT and frequent vacuum.
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off
);

-- One row per maintenance pass. The row lock keeps two passes from running at once; there are no advisory locks, since
-- a transaction pooler would leave them behind.
CREATE TABLE @schema@.maintenance (
    name     text NOT NULL PRIMARY KEY,
    last_run timestamptz,
    state    jsonb NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);
INSERT INTO @schema@.maintenance (name) VALUES ('sweep'), ('sweep_full'), ('route'), ('retention');

-- What the database must know of the configuration. Kept in step by `migrate` and `run`.
CREATE TABLE @schema@.setting (
    name  text NOT NULL PRIMARY KEY,
    value text NOT NULL
);
INSERT INTO @schema@.setting (name, value) VALUES ('inline_limit', '64'), ('on_failed', 'continue'), ('operator_events', 'false');

-- For receivers that deduplicate in a PostgreSQL of their own: call inbox_seen() first in the transaction that handles
-- the event, and stop when it says false.
CREATE TABLE @schema@.inbox (
    source      text        NOT NULL,
    event_id    text        NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT inbox_pkey PRIMARY KEY (source, event_id)
);
CREATE FUNCTION @schema@.inbox_seen(p_source text, p_event_id text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, @schema@, pg_temp AS $$
BEGIN
    -- Waits for a concurrent transaction that handles the same event: only its commit makes this one a duplicate.
    INSERT INTO @schema@.inbox (source, event_id) VALUES (p_source, p_event_id) ON CONFLICT DO NOTHING;
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION @schema@.inbox_seen(text, text) IS 'true when this event is new and now noted, false when it was handled before';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA @schema@ FROM PUBLIC;
