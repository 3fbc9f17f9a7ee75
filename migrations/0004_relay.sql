-- Relays: lease, epoch, wake-up flag, and what becomes of a dead relay's claims. A relay's row is the lock that orders
-- its claims (FOR KEY SHARE) against whatever ends its lease (FOR UPDATE).

-- Whoever comes or goes is announced: the others divide the endpoints' rates anew at once.
CREATE FUNCTION @schema@.register_relay(p_name text, p_host text, p_pid int, p_version text, p_lease interval)
RETURNS TABLE (id bigint, epoch int)
LANGUAGE plpgsql SET search_path = pg_catalog, @schema@, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM pg_notify(@schema@.wake_channel(), 'relay');
    RETURN QUERY
    INSERT INTO @schema@.relay (name, host, pid, version, lease_until)
    VALUES (p_name, p_host, p_pid, p_version, clock_timestamp() + p_lease)
    RETURNING relay.id, relay.epoch;
END $$;

-- The heartbeat. A lease that ran out may be taken up again as long as the row stands: rescue deletes the row only when
-- nothing is claimed under it, and settlements are fenced by claimed_by.
CREATE FUNCTION @schema@.beat(p_relay bigint, p_lease interval, p_in_flight int, p_listening boolean, p_info jsonb)
RETURNS TABLE (alive boolean, live_relays int, server_now timestamptz)
LANGUAGE plpgsql SET search_path = pg_catalog, @schema@, pg_temp AS $$
#variable_conflict use_column
BEGIN
    UPDATE @schema@.relay r
    SET lease_until = clock_timestamp() + p_lease, in_flight = coalesce(p_in_flight, r.in_flight),
        listening = coalesce(p_listening, r.listening), info = coalesce(p_info, r.info)
    WHERE r.id = p_relay;
    RETURN QUERY SELECT FOUND, (SELECT count(*)::int FROM @schema@.relay r WHERE r.lease_until > clock_timestamp()), clock_timestamp();
END $$;

-- Called after each reconnect of the claim session. FOR UPDATE waits for a claim of the old session that is still
-- running; one that begins later finds another epoch. After it, release_unknown sees everything the old session took.
CREATE FUNCTION @schema@.bump_epoch(p_relay bigint) RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, @schema@, pg_temp AS $$
DECLARE
    v_epoch int;
BEGIN
    PERFORM FROM @schema@.relay r WHERE r.id = p_relay FOR UPDATE;
    UPDATE @schema@.relay r SET epoch = r.epoch + 1 WHERE r.id = p_relay RETURNING r.epoch INTO v_epoch;
    RETURN v_epoch;
END $$;

-- The flag need not survive a crash of the server, so its commit does not wait for the disk.
CREATE FUNCTION @schema@.set_wake(p_relay bigint, p_wake boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, @schema@, pg_temp AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE @schema@.relay r SET wake = p_wake WHERE r.id = p_relay AND r.wake <> p_wake;
END $$;

-- Hands back what this relay holds without knowing it: a claim whose reply was lost. Nothing is indexed by owner, so this
-- walks the live table; it runs after a reconnect, not in normal work.
CREATE FUNCTION @schema@.release_unknown(p_relay bigint, p_held bigint[]) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, @schema@, pg_temp SET jit = off AS $$
DECLARE
    v_count bigint;
BEGIN
    UPDATE @schema@.delivery d SET claimed_by = NULL, due_at = greatest(d.due_at, clock_timestamp())
    WHERE d.claimed_by = p_relay AND d.id <> ALL (coalesce(p_held, '{}'));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $$;

CREATE FUNCTION @schema@.retire_relay(p_relay bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, @schema@, pg_temp SET jit = off AS $$
DECLARE
    v_count bigint;
BEGIN
    PERFORM FROM @schema@.relay r WHERE r.id = p_relay FOR UPDATE;
    v_count := @schema@.release_unknown(p_relay, '{}');
    DELETE FROM @schema@.relay r WHERE r.id = p_relay;
    PERFORM pg_notify(@schema@.wake_channel(), 'relay');
    RETURN v_count;
END $$;

-- Takes the claims of relays whose lease ran out. It names the dead and locks them (SKIP LOCKED: several relays may try);
-- "not among the living" would also rescue from a relay this snapshot cannot see yet. The rows: FOR UPDATE SKIP LOCKED,
-- since a late success may be about to delete one. A dead relay's row goes only when nothing is claimed under it.
-- A delivery that fails here keeps its ordering key blocked where the endpoint, or else the file's defaults, say so.
CREATE FUNCTION @schema@.rescue(p_relay bigint, p_max_rescues int, p_limit int)
RETURNS TABLE (delivery bigint, event bigint, endpoint text, lane text, dead_relay bigint, outcome text)
LANGUAGE plpgsql SET search_path = pg_catalog, @schema@, pg_temp
SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_tidscan = on
SET enable_nestloop = on SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_dead   bigint[];
    v_failed bigint[] := '{}';
BEGIN
    SELECT array_agg(x.id) INTO v_dead
    FROM (SELECT r.id FROM @schema@.relay r
          WHERE r.lease_until < clock_timestamp() AND r.id IS DISTINCT FROM p_relay
          ORDER BY r.id FOR UPDATE SKIP LOCKED) x;
    IF v_dead IS NULL THEN
        RETURN;
    END IF;
    FOR delivery, event, endpoint, lane, dead_relay, outcome IN
    WITH orphan AS MATERIALIZED (
        SELECT d.ctid AS tid, d.id, d.claimed_by AS dead FROM @schema@.delivery d
        WHERE d.claimed_by = ANY (v_dead) LIMIT p_limit FOR UPDATE SKIP LOCKED
    ), freed AS (
        UPDATE @schema@.delivery d
        SET claimed_by = NULL, rescued = d.rescued + 1,
            status = CASE WHEN d.rescued + 1 > p_max_rescues THEN 'failed' ELSE d.status END,
            blocks = d.rescued + 1 > p_max_rescues AND d.ordering_key IS NOT NULL AND 'block' = coalesce(
                (SELECT n.settings ->> 'on_failed' FROM @schema@.endpoint n WHERE n.name = d.endpoint),
                (SELECT s.value FROM @schema@.setting s WHERE s.name = 'on_failed'), 'continue'),
            due_at = clock_timestamp()
        FROM orphan o WHERE d.ctid = o.tid AND d.id = o.id
        RETURNING d.id, d.event, d.endpoint, d.lane, o.dead, d.attempts, d.rescued, d.status
    ), noted AS (
        INSERT INTO @schema@.attempt (delivery, event, endpoint, attempt, outcome, error_class, error, started_at, relay)
        SELECT f.id, f.event, f.endpoint, f.attempts + 1,
               CASE WHEN f.status = 'failed' THEN 'failed' ELSE 'lost' END,
               CASE WHEN f.status = 'failed' THEN 'interrupted' ELSE 'lease' END,
               CASE WHEN f.status = 'failed' THEN 'interrupted ' || f.rescued || ' times' ELSE 'relay ' || f.dead || ' lost its lease' END,
               clock_timestamp(), f.dead
        FROM freed f)
    SELECT f.id, f.event, f.endpoint, f.lane, f.dead, CASE WHEN f.status = 'failed' THEN 'failed' ELSE 'lost' END FROM freed f
    LOOP
        IF outcome = 'failed' THEN
            v_failed := v_failed || delivery;
        END IF;
        RETURN NEXT;
    END LOOP;
    IF v_failed <> '{}' THEN
        PERFORM @schema@.failure_events(v_failed);
    END IF;
    DELETE FROM @schema@.relay r
    WHERE r.id = ANY (v_dead) AND NOT EXISTS (SELECT FROM @schema@.delivery d WHERE d.claimed_by = r.id);
    IF FOUND THEN
        PERFORM pg_notify(@schema@.wake_channel(), 'relay');
    END IF;
END $$;

-- What relays noticed about endpoints: p_failing_ms says for how long every attempt has failed (null: it delivers),
-- p_success_ms how long ago the last success was, p_after_ms after how long the endpoint is to be disabled (null: never).
-- Written on change only; last_success_at of an endpoint that simply works is brought up to date twice an hour at most.
-- An endpoint that delivers for another relay is not failing since before that success. Returns what was disabled.
CREATE FUNCTION @schema@.endpoint_health(p_names text[], p_failing_ms bigint[], p_success_ms bigint[], p_after_ms bigint[])
RETURNS TABLE (name text, reason text)
LANGUAGE plpgsql SET search_path = pg_catalog, @schema@, pg_temp AS $$
#variable_conflict use_column
DECLARE
    v_now constant timestamptz := clock_timestamp();
BEGIN
    UPDATE @schema@.endpoint n
    SET failing_since = CASE WHEN x.failing IS NOT NULL
                             THEN coalesce(n.failing_since, greatest(v_now - x.failing * interval '1 ms', n.last_success_at)) END,
        last_success_at = greatest(n.last_success_at, v_now - x.success * interval '1 ms')
    FROM unnest(p_names, p_failing_ms, p_success_ms) AS x(name, failing, success)
    WHERE n.name = x.name AND n.enabled
      AND (x.failing IS NOT NULL AND n.failing_since IS NULL OR x.failing IS NULL AND n.failing_since IS NOT NULL
           OR x.failing IS NULL AND coalesce(n.last_success_at, '-infinity') < v_now - x.success * interval '1 ms' - interval '30 min');
    RETURN QUERY
    UPDATE @schema@.endpoint n
    SET enabled = false, disabled_at = v_now,
        disabled_reason = 'failing since ' || to_char(n.failing_since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || ' without one success'
    FROM unnest(p_names, p_failing_ms, p_after_ms) AS x(name, failing, after)
    WHERE n.name = x.name AND n.enabled AND x.failing IS NOT NULL AND n.failing_since <= v_now - x.after * interval '1 ms'
    RETURNING n.name, n.disabled_reason;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA @schema@ FROM PUBLIC;
