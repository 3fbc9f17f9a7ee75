-- Fan-out: who gets an event. It happens in the application's own transaction, so nothing here may fail, lock a row
-- that others write, or wait. Plain reads, plain inserts of new keys, no subtransaction (an EXCEPTION block would cost
-- every application), every expression total.

-- The patterns an event type can match: '*', the type itself, and 'a.*', 'a.b.*' for 'a.b.c'. Backwards matching by
-- look-up costs the same for one endpoint as for ten thousand.
CREATE FUNCTION @schema@.patterns(p_event_type text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    v_dots   constant int := char_length(p_event_type) - char_length(replace(p_event_type, '.', ''));
    v_parts  text[];
    v_prefix text := '';
    v_all    text[];
BEGIN
    -- The usual types need no loop, which costs more than all else here.
    IF v_dots = 0 THEN
        RETURN ARRAY['*', p_event_type];
    ELSIF v_dots = 1 THEN
        RETURN ARRAY['*', p_event_type, split_part(p_event_type, '.', 1) || '.*'];
    END IF;
    v_parts := string_to_array(p_event_type, '.');
    v_all := ARRAY['*', p_event_type];
    FOR i IN 1 .. cardinality(v_parts) - 1 LOOP
        v_prefix := v_prefix || v_parts[i] || '.';
        v_all := v_all || (v_prefix || '*');
    END LOOP;
    RETURN v_all;
END $$;

-- The lane of a direct URL: its breaker key, or scheme, host and port, so that all spellings of one receiver share one
-- circuit and one limit. The user part never becomes a lane name: it may hold a password.
CREATE FUNCTION @schema@.url_lane(p_url text, p_breaker_key text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    v_scheme    text;
    v_authority text;
BEGIN
    IF p_breaker_key IS NOT NULL THEN
        RETURN left('url:' || p_breaker_key, 255);
    END IF;
    v_scheme := lower(substring(p_url COLLATE "C" from '^[A-Za-z][A-Za-z0-9+.-]*(?=://)'));
    IF v_scheme IS NULL THEN
        RETURN 'url:invalid';
    END IF;
    v_authority := substring(substr(p_url, length(v_scheme) + 4) from '^[^/?#]*');
    v_authority := lower(regexp_replace(v_authority, '^.*@', '') COLLATE "C");
    v_authority := regexp_replace(v_authority, ':$', '');
    -- What is no host with an optional port may be a piece of a password: it is refused later, and no name is made of it.
    IF v_authority !~ '^(\[[0-9a-f:.%]+\]|[^\[\]:]+)(:[0-9]+)?$' THEN
        RETURN 'url:invalid';
    END IF;
    IF v_authority !~ ':[0-9]+$' THEN
        v_authority := v_authority || CASE v_scheme WHEN 'https' THEN ':443' WHEN 'http' THEN ':80' ELSE '' END;
    END IF;
    RETURN left('url:' || v_scheme || '://' || v_authority, 255);
END $$;

-- The matching, written once. Names of the endpoints after p_after, at most p_limit, in order of name; refused is true
-- when the event names an endpoint that belongs to another tenant. Disabled and paused endpoints match as well: their
-- deliveries wait. It has no SET clause and is one SELECT, so that the planner puts it into its callers' plans; they
-- pin search_path.
CREATE FUNCTION @schema@.match(p_event_type text, p_tenant text, p_endpoint text, p_after text, p_limit int)
RETURNS TABLE (names text[], refused boolean)
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN p_endpoint IS NULL THEN
                ARRAY(SELECT DISTINCT s.endpoint
                      FROM @schema@.subscription s
                      WHERE s.pattern = ANY (@schema@.patterns(p_event_type))
                        AND s.tenant_id = ANY (ARRAY['', p_tenant])
                        AND s.endpoint > p_after
                      ORDER BY s.endpoint
                      LIMIT p_limit)
           ELSE ARRAY(SELECT n.name FROM @schema@.endpoint n WHERE n.name = p_endpoint AND n.name > p_after) END,
           p_endpoint IS NOT NULL AND EXISTS (
                SELECT FROM @schema@.endpoint n WHERE n.name = p_endpoint AND n.tenant_id <> coalesce(p_tenant, ''))
$$;

-- AFTER INSERT of each statement on event. SECURITY DEFINER: the application may insert events and nothing else.
-- One row for one endpoint, the usual case, takes one look and one plain INSERT here: what it costs is what every
-- application pays. Everything else, several rows or endpoints, nobody to send to, a refused one, takes a statement that
-- matches once for each kind of event.
CREATE FUNCTION @schema@.fan_out() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, @schema@, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_mergejoin = off SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_now      constant timestamptz := clock_timestamp();  -- read once: all rows of a statement are equally old
    v_limit    int;
    v_wake     boolean;
    v_first    text;
    v_last     text;
    v_failed   boolean;
    v_route    boolean;
    v_keyed    boolean;
    v_behind   boolean := false;
    v_event    bigint;
    v_names    text[];
    v_url      text;
    v_breaker  text;
    v_key      text;
    v_due      timestamptz;
    v_expires  timestamptz;
    v_attempts smallint;
    v_size     int;
BEGIN
    -- match() without its sorting, which one subscription does not need.
    SELECT i.id, i.url, i.breaker_key, i.ordering_key, greatest(i.deliver_at, v_now), i.expires_at, i.max_attempts,
           coalesce(octet_length(i.payload_bytes), octet_length(i.payload::text)),
           CASE WHEN i.url IS NOT NULL THEN '{NULL}'::text[]
                WHEN i.endpoint IS NOT NULL THEN
                     ARRAY(SELECT n.name FROM @schema@.endpoint n
                           WHERE n.name = i.endpoint AND (n.tenant_id IS NULL OR n.tenant_id = coalesce(i.tenant_id, '')))
                ELSE ARRAY(SELECT s.endpoint FROM @schema@.subscription s
                           WHERE s.pattern = ANY (@schema@.patterns(i.event_type)) AND s.tenant_id = ANY (ARRAY['', i.tenant_id])
                           LIMIT 2) END,
           EXISTS (SELECT FROM @schema@.relay r WHERE r.wake)
      INTO v_event, v_url, v_breaker, v_key, v_due, v_expires, v_attempts, v_size, v_names, v_wake
      FROM inserted i
     WHERE NOT EXISTS (SELECT FROM inserted OFFSET 1)
       AND NOT EXISTS (SELECT FROM @schema@.setting s WHERE s.name = 'inline_limit' AND s.value = '0');
    IF v_key IS NOT NULL AND v_url IS NULL THEN
        -- An older event of the same ordering key still waits to be routed: then the daemon fans out, in order of id.
        v_behind := EXISTS (SELECT FROM @schema@.delivery u
                            WHERE u.status = 'unrouted' AND u.ordering_key = v_key AND u.due_at < 'infinity');
    END IF;

    IF cardinality(v_names) = 1 AND NOT v_behind THEN
        v_last := CASE WHEN v_url IS NULL THEN v_names[1] ELSE @schema@.url_lane(v_url, v_breaker) END;
        INSERT INTO @schema@.delivery (event, endpoint, lane, ordering_key, due_at, expires_at, size, max_attempts)
        VALUES (v_event, v_names[1], v_last, v_key, v_due, v_expires, v_size, v_attempts);
        IF v_due <= v_now THEN
            v_first := v_last;
        END IF;
    ELSE
        SELECT EXISTS (SELECT FROM @schema@.relay r WHERE r.wake),
               coalesce((SELECT CASE WHEN s.value ~ '^[0-9]{1,9}$' THEN s.value::int END
                         FROM @schema@.setting s WHERE s.name = 'inline_limit'), 64)
          INTO v_wake, v_limit;
        WITH kind AS MATERIALIZED (
            SELECT k.*, m.names, m.refused
            FROM (SELECT DISTINCT i.event_type COLLATE "C" AS event_type, coalesce(i.tenant_id, '') AS tenant,
                         coalesce(i.endpoint, '') AS endpoint FROM inserted i WHERE i.url IS NULL) k
            CROSS JOIN LATERAL @schema@.match(k.event_type, nullif(k.tenant, ''), nullif(k.endpoint, ''), '', v_limit + 1) m
        ), written AS (
            INSERT INTO @schema@.delivery
                   (event, endpoint, lane, ordering_key, status, due_at, expires_at, size, max_attempts, fan_after)
            SELECT n.id, n.name,
                   CASE WHEN n.url IS NOT NULL THEN @schema@.url_lane(n.url, n.breaker_key) ELSE coalesce(n.name, '') END,
                   n.ordering_key,
                   CASE WHEN n.url IS NOT NULL THEN 'pending' WHEN n.name IS NULL THEN 'unrouted'
                        WHEN n.refused THEN 'failed' ELSE 'pending' END,
                   CASE WHEN n.url IS NULL AND n.name IS NULL THEN v_now ELSE greatest(n.deliver_at, v_now) END,
                   n.expires_at, n.size, n.max_attempts, CASE WHEN n.later THEN '' END
            FROM (SELECT j.*, unnest(CASE WHEN j.later OR j.names = '{}' OR j.url IS NOT NULL THEN '{NULL}' ELSE j.names END) AS name
                  FROM (SELECT i.*, k.names, k.refused, i.url IS NULL AND (i.behind OR cardinality(k.names) > v_limit) AS later
                        -- Only a hash join can be a full join without a sort, whatever number of rows a plan was made for.
                        FROM (SELECT x.id, x.url, x.breaker_key, x.ordering_key, x.deliver_at, x.expires_at, x.max_attempts,
                                     CASE WHEN x.url IS NULL THEN x.event_type END AS event_type,
                                     coalesce(x.tenant_id, '') AS tenant, coalesce(x.endpoint, '') AS endpoint,
                                     coalesce(octet_length(x.payload_bytes), octet_length(x.payload::text)) AS size,
                                     x.ordering_key IS NOT NULL AND x.url IS NULL AND EXISTS (
                                        SELECT FROM @schema@.delivery u
                                        WHERE u.status = 'unrouted' AND u.ordering_key = x.ordering_key
                                          AND u.due_at < 'infinity' OFFSET 0) AS behind
                              FROM inserted x) i
                        FULL JOIN kind k ON k.event_type = i.event_type AND k.tenant = i.tenant AND k.endpoint = i.endpoint
                        ORDER BY i.id) j) n
            RETURNING lane, status, due_at, ordering_key)
        SELECT min(w.lane) FILTER (WHERE w.status = 'pending' AND w.due_at <= v_now),
               max(w.lane) FILTER (WHERE w.status = 'pending' AND w.due_at <= v_now),
               coalesce(bool_or(w.status = 'failed'), false),
               coalesce(bool_or(w.status = 'unrouted'), false),
               coalesce(bool_or(w.status = 'unrouted' AND w.ordering_key IS NOT NULL), false)
          INTO v_first, v_last, v_failed, v_route, v_keyed
          FROM written w;

        IF v_keyed THEN
            -- An event of this very statement waits for the daemon: so must the later ones of its ordering key.
            WITH held AS MATERIALIZED (
                SELECT i.id AS event
                FROM (SELECT j.id, j.url,
                             bool_or(EXISTS (SELECT FROM @schema@.delivery u
                                             WHERE u.event = j.id AND coalesce(u.endpoint, '') = '' AND u.status = 'unrouted' OFFSET 0))
                                 OVER (PARTITION BY j.ordering_key ORDER BY j.id) AS behind
                      FROM inserted j WHERE j.ordering_key IS NOT NULL) i
                WHERE i.behind AND i.url IS NULL
            ), freed AS (
                DELETE FROM @schema@.delivery d
                WHERE d.ctid = ANY (ARRAY(SELECT f.tid FROM held h
                                          CROSS JOIN LATERAL (SELECT p.ctid AS tid FROM @schema@.delivery p
                                                              WHERE p.event = h.event AND p.status = 'pending' OFFSET 0) f))
                RETURNING d.event, d.ordering_key, d.expires_at, d.size, d.max_attempts)
            INSERT INTO @schema@.delivery (event, lane, ordering_key, status, due_at, expires_at, size, max_attempts, fan_after)
            SELECT DISTINCT f.event, '', f.ordering_key, 'unrouted', v_now, f.expires_at, f.size, f.max_attempts, '' FROM freed f;
        END IF;
    END IF;

    IF v_failed THEN
        INSERT INTO @schema@.attempt (delivery, event, endpoint, attempt, outcome, error_class, error, started_at, finished_at)
        SELECT d.id, d.event, d.endpoint, 0, 'failed', 'tenant',
               'endpoint ' || d.endpoint || ' belongs to another tenant', v_now, v_now
        FROM inserted i
        CROSS JOIN LATERAL (SELECT * FROM @schema@.delivery f
                            WHERE f.event = i.id AND coalesce(f.endpoint, '') = i.endpoint
                              AND f.status = 'failed' LIMIT 1) d;
    END IF;

    -- NOTIFY takes a lock that serialises commits: only while some relay sleeps and has asked for it, and only four
    -- transactions at a time, so that the commits of all others can share one write to disk. Who goes without is at work
    -- while one of the four commits, and a woken relay looks again until all that were at work then have ended. A queue
    -- that a stuck listener has let grow is left alone, because a full one would fail the application's COMMIT.
    IF v_wake AND (v_first IS NOT NULL OR v_route) AND pg_notification_queue_usage() < 0.5
       AND (pg_try_advisory_xact_lock(TG_RELID::int, 1) OR pg_try_advisory_xact_lock(TG_RELID::int, 2)
            OR pg_try_advisory_xact_lock(TG_RELID::int, 3) OR pg_try_advisory_xact_lock(TG_RELID::int, 4)) THEN
        IF v_first IS NOT NULL THEN
            PERFORM pg_notify(left(TG_TABLE_SCHEMA, 58) || '_wake', CASE WHEN v_first = v_last THEN 'lane:' || v_first ELSE 'any' END);
        END IF;
        IF v_route THEN
            PERFORM pg_notify(left(TG_TABLE_SCHEMA, 58) || '_wake', 'route');
        END IF;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER event_fan_out AFTER INSERT ON @schema@.event
    REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION @schema@.fan_out();

CREATE FUNCTION @schema@.refuse_update() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, @schema@, pg_temp AS $$
BEGIN
    RAISE EXCEPTION '%.event is insert-only: an event never changes, so that every attempt sends the same bytes; insert a new event instead',
        TG_TABLE_SCHEMA USING ERRCODE = 'object_not_in_prerequisite_state';
END $$;
CREATE TRIGGER event_insert_only BEFORE UPDATE ON @schema@.event
    FOR EACH STATEMENT EXECUTE FUNCTION @schema@.refuse_update();

-- TRUNCATE event (its owner may, for example between tests) takes the live work and the history along: with RESTART
-- IDENTITY their ids would come again and fail the application's INSERT.
CREATE FUNCTION @schema@.truncated() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, @schema@, pg_temp AS $$
BEGIN
    TRUNCATE @schema@.delivery, @schema@.attempt;
    UPDATE @schema@.maintenance SET state = '{}' WHERE name IN ('sweep', 'sweep_full', 'retention');
    RETURN NULL;
END $$;
CREATE TRIGGER event_truncated AFTER TRUNCATE ON @schema@.event
    FOR EACH STATEMENT EXECUTE FUNCTION @schema@.truncated();

-- Endpoints ------------------------------------------------------------------------------------------------------

CREATE FUNCTION @schema@.wake_channel() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, @schema@, pg_temp AS $$
    SELECT left(n.nspname, 58) || '_wake' FROM pg_catalog.pg_namespace n WHERE n.oid = '@schema@'::regnamespace
$$;

CREATE FUNCTION @schema@.endpoint_touched() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, @schema@, pg_temp AS $$
BEGIN
    NEW.updated_at := clock_timestamp();
    -- However it is enabled, by command, by the file or by plain SQL: the rule for lasting failure begins anew.
    IF NEW.enabled AND NOT OLD.enabled THEN
        NEW.failing_since := NULL;
        NEW.disabled_at := NULL;
        IF NEW.disabled_reason IS NOT DISTINCT FROM OLD.disabled_reason THEN
            NEW.disabled_reason := NULL;
        END IF;
    ELSIF OLD.enabled AND NOT NEW.enabled THEN
        NEW.disabled_at := coalesce(NEW.disabled_at, clock_timestamp());
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER endpoint_touched BEFORE UPDATE OF name, url, tenant_id, events, enabled, paused, disabled_reason, settings, managed_by
    ON @schema@.endpoint FOR EACH ROW EXECUTE FUNCTION @schema@.endpoint_touched();

-- An event about outboxd itself, for whoever has subscribed to `outboxd.*`; only while relay.operator_events asks for it.
-- What it reports has happened already, so a failure here (an application's own trigger on event, say) is a warning.
CREATE FUNCTION @schema@.operator_event(p_type text, p_tenant text, p_subject text, p_payload json) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, @schema@, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM @schema@.setting s WHERE s.name = 'operator_events' AND s.value = 'true') THEN
        INSERT INTO @schema@.event (event_type, payload, tenant_id, subject, source)
        VALUES (p_type, p_payload, p_tenant, p_subject, 'outboxd');
    END IF;
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'event % was not written: %', p_type, SQLERRM;
END $$;

-- One event `outboxd.delivery.failed` for each of these deliveries that has just failed. Its event_id comes from the
-- attempt that ended it, so a settlement that is repeated after a lost reply makes no second one. Events about outboxd
-- itself are left out: their failure would make the next one without end.
CREATE FUNCTION @schema@.failure_events(p_deliveries bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, @schema@, pg_temp SET enable_seqscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM @schema@.setting s WHERE s.name = 'operator_events' AND s.value = 'true') THEN
        RETURN;
    END IF;
    INSERT INTO @schema@.event (event_id, event_type, payload, tenant_id, subject, source)
    SELECT 'outboxd-failed-' || a.id, 'outboxd.delivery.failed',
           json_build_object('delivery', d.id, 'event_id', v.event_id, 'event_type', v.event_type, 'endpoint', d.endpoint,
                             'lane', d.lane, 'attempts', d.attempts, 'http_status', a.http_status,
                             'error_class', a.error_class, 'error', a.error, 'failed_at', a.finished_at),
           v.tenant_id, v.event_id, 'outboxd'
    FROM @schema@.delivery d
    CROSS JOIN LATERAL (SELECT * FROM @schema@.event e WHERE e.id = d.event LIMIT 1) v
    CROSS JOIN LATERAL (SELECT h.* FROM @schema@.attempt h WHERE h.event = d.event AND h.delivery = d.id
                        ORDER BY h.id DESC LIMIT 1) a
    WHERE d.id = ANY (p_deliveries) AND d.status = 'failed' AND a.outcome = 'failed' AND NOT starts_with(v.event_type, 'outboxd.')
    ON CONFLICT (event_id) DO NOTHING;
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'events outboxd.delivery.failed were not written: %', SQLERRM;
END $$;

-- After a change that may have mended it (another address, enabled again) an endpoint is tried at once: its circuit is
-- closed, and the relays begin with one request. Disabling is reported, whoever did it.
CREATE FUNCTION @schema@.endpoint_turned() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, @schema@, pg_temp AS $$
BEGIN
    IF NEW.url <> OLD.url OR NEW.enabled AND NOT OLD.enabled THEN
        DELETE FROM @schema@.circuit c WHERE c.lane = NEW.name;
        IF FOUND THEN
            PERFORM pg_notify(left(TG_TABLE_SCHEMA, 58) || '_wake', 'circuit');
        END IF;
    END IF;
    IF OLD.enabled AND NOT NEW.enabled AND NEW.disabled_reason IS DISTINCT FROM 'being removed' THEN
        PERFORM @schema@.operator_event('outboxd.endpoint.disabled', NEW.tenant_id, NEW.name,
            json_build_object('endpoint', NEW.name, 'reason', NEW.disabled_reason, 'disabled_at', NEW.disabled_at,
                              'failing_since', NEW.failing_since, 'last_success_at', NEW.last_success_at));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER endpoint_turned AFTER UPDATE OF url, enabled ON @schema@.endpoint
    FOR EACH ROW WHEN (OLD.url <> NEW.url OR OLD.enabled <> NEW.enabled) EXECUTE FUNCTION @schema@.endpoint_turned();

-- Keeps subscription in step. Patterns that no event type can match (NULL, empty, longer than a type) are left out, so
-- that a bad row breaks neither its writer nor the fan-out.
CREATE FUNCTION @schema@.endpoint_subscribed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, @schema@, pg_temp AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM @schema@.subscription s WHERE s.endpoint = OLD.name;
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.name <> OLD.name THEN
        UPDATE @schema@.delivery d SET endpoint = NEW.name, lane = NEW.name WHERE d.endpoint = OLD.name;
        DELETE FROM @schema@.circuit c WHERE c.lane = OLD.name;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO @schema@.subscription (pattern, tenant_id, endpoint)
        SELECT DISTINCT p.pattern, coalesce(NEW.tenant_id, ''), NEW.name
        FROM unnest(NEW.events) AS p(pattern)
        WHERE char_length(p.pattern) BETWEEN 1 AND 257;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER endpoint_subscribed_insert AFTER INSERT OR DELETE ON @schema@.endpoint
    FOR EACH ROW EXECUTE FUNCTION @schema@.endpoint_subscribed();
CREATE TRIGGER endpoint_subscribed_update AFTER UPDATE OF name, tenant_id, events ON @schema@.endpoint
    FOR EACH ROW WHEN (OLD.name <> NEW.name OR OLD.tenant_id IS DISTINCT FROM NEW.tenant_id OR OLD.events <> NEW.events)
    EXECUTE FUNCTION @schema@.endpoint_subscribed();

CREATE FUNCTION @schema@.endpoint_changed() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, @schema@, pg_temp AS $$
BEGIN
    PERFORM pg_notify(left(TG_TABLE_SCHEMA, 58) || '_wake', 'endpoint');
    RETURN NULL;
END $$;
CREATE TRIGGER endpoint_changed AFTER INSERT OR DELETE OR TRUNCATE OR
    UPDATE OF name, url, tenant_id, events, enabled, paused, disabled_reason, settings, managed_by
    ON @schema@.endpoint FOR EACH STATEMENT EXECUTE FUNCTION @schema@.endpoint_changed();
CREATE TRIGGER endpoint_secret_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE
    ON @schema@.endpoint_secret FOR EACH STATEMENT EXECUTE FUNCTION @schema@.endpoint_changed();

-- For relays that cannot LISTEN: a value that changes with every committed change of either table. A new row version has
-- a new xmin or place; relays' own bookkeeping (last_success_at) changes it too, which costs them one read.
CREATE FUNCTION @schema@.endpoint_digest() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, @schema@, pg_temp AS $$
    SELECT concat_ws('/',
        (SELECT count(*) || ':' || coalesce(sum(hashtextextended(e.xmin::text || e.ctid::text, 0)::numeric), 0) FROM @schema@.endpoint e),
        (SELECT count(*) || ':' || coalesce(sum(hashtextextended(s.xmin::text || s.ctid::text, 0)::numeric), 0) FROM @schema@.endpoint_secret s))
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA @schema@ FROM PUBLIC;
