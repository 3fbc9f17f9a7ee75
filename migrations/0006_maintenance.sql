-- Maintenance: routing what the trigger left, finding what it never saw, retention. Each pass locks its row of
-- `maintenance` FOR UPDATE SKIP LOCKED and always writes it: two passes never overlap, a second one returns at once, and
-- under REPEATABLE READ the loser fails with 40001 instead of working on an old snapshot. Every pass is bounded by its
-- parameter; callers repeat it.

-- What routing depends on, as one value: changes exactly when an endpoint's name, tenant or patterns change.
CREATE FUNCTION @schema@.routing_digest() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, @schema@, pg_temp AS $$
    SELECT count(*) || ':' || coalesce(sum(hashtextextended(
               concat_ws(chr(31), n.name, coalesce(n.tenant_id, ''), array_to_string(n.events, chr(30), '')), 0)::numeric), 0)
    FROM @schema@.endpoint n
$$;

-- Routes unrouted rows in order of their events: rows that are due (new ones, wide events in progress, those whose grace
-- ended), and after a change of the endpoints all rows still within grace, from the oldest on. Rows without a match are
-- not looked at again until then, so that a million of them cost nothing. An ordering key keeps its order because the
-- digest of the endpoints and the matching of the whole batch are read by one statement (one snapshot): when an endpoint
-- has appeared since the last pass, nothing is routed before the older rows have been looked at.
-- At most p_limit deliveries per call, a wide event in slices (fan_after is the last endpoint done). After p_grace a row
-- gets due_at 'infinity' and stays `unrouted` for an operator.
CREATE FUNCTION @schema@.route(p_limit int, p_grace interval) RETURNS TABLE (routed bigint, remaining bigint)
LANGUAGE plpgsql
SET search_path = pg_catalog, @schema@, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_indexscan = on SET enable_nestloop = on SET enable_tidscan = on SET enable_memoize = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_now    constant timestamptz := clock_timestamp();
    v_state  jsonb;
    v_stored text;
    v_digest text;
    v_at     bigint;   -- the walk after a change has come to this event; null when no walk is going on
    v_seen   bigint;
    v_left   bigint;
    v_upto   bigint;
    v_routed bigint := 0;
    v_remain bigint := 0;
BEGIN
    SELECT m.state INTO v_state FROM @schema@.maintenance m WHERE m.name = 'route' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 0::bigint, 0::bigint;
        RETURN;
    END IF;
    -- The sweep routes what it found with null, which stands for the grace of the last call that named one.
    p_grace := coalesce(p_grace, make_interval(secs => coalesce((v_state ->> 'grace')::float8, 86400)));
    v_stored := coalesce(v_state ->> 'digest', '');
    v_at := (v_state ->> 'at')::bigint;

    IF EXISTS (SELECT FROM @schema@.delivery u WHERE u.status = 'unrouted' AND u.due_at < 'infinity') THEN
        FOR i IN 1 .. 2 LOOP
            WITH current AS MATERIALIZED (
                SELECT @schema@.routing_digest() AS digest
            ), batch AS MATERIALIZED (
                SELECT * FROM (
                    SELECT u.ctid AS tid, u.id, u.event, u.fan_after, u.ordering_key, u.size
                    FROM @schema@.delivery u
                    WHERE v_at IS NOT NULL AND u.status = 'unrouted' AND u.event > v_at AND u.due_at < 'infinity'
                    ORDER BY u.event LIMIT p_limit FOR UPDATE SKIP LOCKED) a
                UNION ALL
                SELECT * FROM (
                    SELECT u.ctid, u.id, u.event, u.fan_after, u.ordering_key, u.size
                    FROM @schema@.delivery u
                    WHERE v_at IS NULL AND u.status = 'unrouted' AND u.due_at <= v_now
                    ORDER BY u.event LIMIT p_limit FOR UPDATE SKIP LOCKED) b
            ), matched AS MATERIALIZED (
                SELECT b.*, v.id IS NULL AS gone, v.url, v.breaker_key, v.deliver_at, v.expires_at, v.max_attempts,
                       v.created_at, m.names, m.refused,
                       greatest(cardinality(m.names) - p_limit, 0) > 0 AS more,
                       sum(cardinality(m.names)) OVER (ORDER BY b.event ROWS UNBOUNDED PRECEDING) - cardinality(m.names) AS before
                FROM batch b
                CROSS JOIN current c
                LEFT JOIN LATERAL (SELECT * FROM @schema@.event e WHERE e.id = b.event LIMIT 1) v ON true
                CROSS JOIN LATERAL (
                    SELECT x.names, x.refused FROM @schema@.match(v.event_type, v.tenant_id, v.endpoint,
                                                                  coalesce(b.fan_after, ''), p_limit + 1) x
                    WHERE v.url IS NULL AND v.id IS NOT NULL
                    UNION ALL
                    SELECT '{}'::text[], false WHERE v.url IS NOT NULL OR v.id IS NULL
                    OFFSET 0) m
                WHERE c.digest = v_stored
            ), chosen AS MATERIALIZED (
                -- The first one always; whatever follows an unfinished wide event waits for it, and so keeps its order.
                SELECT m.* FROM matched m WHERE m.before < p_limit
            ), written AS (
                INSERT INTO @schema@.delivery
                       (event, endpoint, lane, ordering_key, status, due_at, expires_at, size, max_attempts)
                SELECT c.event, n.name, n.name, c.ordering_key, CASE WHEN c.refused THEN 'failed' ELSE 'pending' END,
                       greatest(c.deliver_at, clock_timestamp()), c.expires_at, c.size, c.max_attempts
                FROM chosen c CROSS JOIN LATERAL unnest(c.names[1:p_limit]) AS n(name)
                ON CONFLICT DO NOTHING
                RETURNING id, event, endpoint, status
            ), refused AS (
                INSERT INTO @schema@.attempt (delivery, event, endpoint, attempt, outcome, error_class, error, started_at)
                SELECT w.id, w.event, w.endpoint, 0, 'failed', 'tenant',
                       'endpoint ' || w.endpoint || ' belongs to another tenant', v_now
                FROM written w WHERE w.status = 'failed'
            ), done AS (
                DELETE FROM @schema@.delivery d USING chosen c
                WHERE d.ctid = c.tid AND d.id = c.id
                  AND (c.gone OR c.url IS NULL AND NOT c.more AND (c.names <> '{}' OR coalesce(c.fan_after, '') <> ''))
            ), moved AS (
                UPDATE @schema@.delivery d
                SET status    = CASE WHEN c.url IS NOT NULL THEN 'pending' ELSE d.status END,
                    lane      = CASE WHEN c.url IS NOT NULL THEN @schema@.url_lane(c.url, c.breaker_key) ELSE d.lane END,
                    fan_after = CASE WHEN c.more THEN c.names[p_limit] END,
                    due_at    = CASE WHEN c.url IS NOT NULL THEN greatest(c.deliver_at, clock_timestamp())
                                     WHEN c.more THEN v_now
                                     WHEN c.created_at + p_grace <= v_now THEN 'infinity'
                                     ELSE c.created_at + p_grace END
                FROM chosen c
                WHERE d.ctid = c.tid AND d.id = c.id AND NOT c.gone
                  AND (c.url IS NOT NULL OR c.more OR c.names = '{}' AND coalesce(c.fan_after, '') = ''
                       -- Looked at before and nothing to change: a walk over a million such rows writes nothing.
                       AND (d.fan_after IS NOT NULL OR d.due_at <= v_now OR c.created_at + p_grace <= v_now))
                RETURNING d.status)
            SELECT (SELECT c.digest FROM current c), (SELECT count(*) FROM batch),
                   (SELECT count(*) FROM batch) - (SELECT count(*) FROM chosen c WHERE NOT c.more),
                   (SELECT max(c.event) FROM chosen c WHERE NOT c.more),
                   (SELECT count(*) FROM written) + (SELECT count(*) FROM moved m WHERE m.status = 'pending')
              INTO v_digest, v_seen, v_left, v_upto, v_routed;
            EXIT WHEN v_digest = v_stored;
            v_stored := v_digest;
            v_at := 0;
        END LOOP;
        IF v_digest <> v_stored THEN  -- endpoints changed twice within this call: the next one walks
            v_stored := v_digest;
            v_at := 0;
        ELSIF v_at IS NOT NULL THEN
            v_at := CASE WHEN v_seen < p_limit AND v_left = 0 THEN NULL ELSE greatest(v_at, v_upto) END;
        END IF;
        v_remain := CASE
            WHEN v_at IS NOT NULL THEN (SELECT count(*) FROM (SELECT FROM @schema@.delivery u WHERE u.status = 'unrouted'
                                              AND u.event > v_at AND u.due_at < 'infinity' LIMIT 10000) x)
            ELSE (SELECT count(*) FROM (SELECT FROM @schema@.delivery u
                                        WHERE u.status = 'unrouted' AND u.due_at <= v_now LIMIT 10000) x) END;
    END IF;
    UPDATE @schema@.maintenance m
    SET last_run = v_now, state = jsonb_strip_nulls(jsonb_build_object('digest', v_stored, 'at', v_at, 'grace', extract(epoch FROM p_grace)))
    WHERE m.name = 'route';
    IF v_routed > 0 AND EXISTS (SELECT FROM @schema@.relay r WHERE r.wake) THEN
        PERFORM pg_notify(@schema@.wake_channel(), 'any');
    END IF;
    RETURN QUERY SELECT v_routed, v_remain;
END $$;

-- Gives events in (p_after, p_upto] that nobody has fanned out to routing: an unrouted row with fan_after set. One
-- statement, so that one snapshot decides: settling moves a row from delivery to attempt in one step, and two statements
-- could see neither. Returns how many ids were looked at, the last of them, and how many were missing.
CREATE FUNCTION @schema@.sweep_range(p_after bigint, p_upto bigint, p_batch int)
RETURNS TABLE (looked_at bigint, last_id bigint, found bigint)
LANGUAGE plpgsql
SET search_path = pg_catalog, @schema@, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_indexscan = on SET enable_nestloop = on SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH ids AS MATERIALIZED (
        SELECT e.id FROM @schema@.event e WHERE e.id > p_after AND e.id <= p_upto ORDER BY e.id LIMIT p_batch
    ), missing AS MATERIALIZED (
        SELECT i.id FROM ids i
        CROSS JOIN LATERAL (
            SELECT EXISTS (SELECT FROM @schema@.attempt a WHERE a.event = i.id)
                OR EXISTS (SELECT FROM @schema@.delivery d WHERE d.event = i.id) AS known OFFSET 0) k
        WHERE NOT k.known
    ), added AS (
        INSERT INTO @schema@.delivery (event, lane, ordering_key, status, due_at, expires_at, size, max_attempts, fan_after)
        SELECT v.id, '', v.ordering_key, 'unrouted', clock_timestamp(), v.expires_at,
               coalesce(octet_length(v.payload_bytes), octet_length(v.payload::text)), v.max_attempts, ''
        FROM missing m CROSS JOIN LATERAL (SELECT * FROM @schema@.event e WHERE e.id = m.id LIMIT 1) v
        ON CONFLICT DO NOTHING RETURNING event)
    SELECT (SELECT count(*) FROM ids), (SELECT max(i.id) FROM ids i), (SELECT count(*) FROM added);
END $$;

-- Finds committed events that the trigger never saw. An event that is visible here without delivery and attempt was never
-- fanned out; the watermark only has to make sure that no late commit falls behind it: it moves to a candidate when every
-- transaction that ran when the candidate was read has ended, and p_settle has passed (an id may be drawn before its
-- transaction is known). What slips through all the same is found by a slow second walk over everything.
CREATE FUNCTION @schema@.sweep(p_batch int, p_settle interval DEFAULT '10s') RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, @schema@, pg_temp AS $$
#variable_conflict use_column
DECLARE
    v_now       constant timestamptz := clock_timestamp();
    v_state     jsonb;
    v_done      bigint;
    v_candidate bigint;
    v_range     record;
    v_found     bigint := 0;
BEGIN
    SELECT m.state INTO v_state FROM @schema@.maintenance m WHERE m.name = 'sweep' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    v_done := coalesce((v_state ->> 'done')::bigint, 0);
    v_candidate := (v_state ->> 'candidate')::bigint;
    IF v_candidate IS NOT NULL
       AND pg_snapshot_xmin(pg_current_snapshot()) >= (v_state ->> 'candidate_xmax')::xid8
       AND to_timestamp((v_state ->> 'candidate_at')::float8) <= v_now - p_settle THEN
        SELECT * INTO v_range FROM @schema@.sweep_range(v_done, v_candidate, p_batch);
        v_found := v_range.found;
        v_done := CASE WHEN v_range.looked_at < p_batch THEN v_candidate ELSE v_range.last_id END;
        IF v_done >= v_candidate THEN
            v_candidate := NULL;
        END IF;
        v_state := v_state || jsonb_build_object('done', v_done, 'candidate', v_candidate);
    END IF;
    IF v_candidate IS NULL THEN
        SELECT max(e.id) INTO v_candidate FROM @schema@.event e;
        IF v_candidate > v_done THEN
            v_state := v_state || jsonb_build_object('candidate', v_candidate,
                'candidate_xmax', pg_snapshot_xmax(pg_current_snapshot())::text, 'candidate_at', extract(epoch FROM v_now));
        END IF;
    END IF;
    UPDATE @schema@.maintenance m SET last_run = v_now, state = v_state WHERE m.name = 'sweep';

    SELECT m.state INTO v_state FROM @schema@.maintenance m WHERE m.name = 'sweep_full' FOR UPDATE;
    SELECT * INTO v_range FROM @schema@.sweep_range(coalesce((v_state ->> 'at')::bigint, 0), v_done, p_batch);
    v_found := v_found + v_range.found;
    UPDATE @schema@.maintenance m
    SET last_run = v_now,
        state = jsonb_build_object('at', CASE WHEN v_range.looked_at < p_batch THEN 0 ELSE v_range.last_id END)
    WHERE m.name = 'sweep_full';

    IF v_found > 0 THEN
        PERFORM @schema@.route(p_batch, NULL);
    END IF;
    RETURN v_found;
END $$;

-- Gives one event to routing now, when nobody has fanned it out; false when somebody has.
CREATE FUNCTION @schema@.route_event(p_event bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, @schema@, pg_temp AS $$
DECLARE
    v_found bigint;
BEGIN
    PERFORM FROM @schema@.maintenance m WHERE m.name = 'sweep' FOR UPDATE;
    SELECT r.found INTO v_found FROM @schema@.sweep_range(p_event - 1, p_event, 1) r;
    UPDATE @schema@.maintenance m SET last_run = clock_timestamp() WHERE m.name = 'sweep';
    IF v_found > 0 THEN
        PERFORM @schema@.route(1000, NULL);
    END IF;
    RETURN v_found > 0;
END $$;

-- Retention. Walks the events by id from where the last call ended, p_batch at a time, and begins again at the front when
-- it reaches events that are too young. An event goes with its history when no delivery is left and its last attempt is
-- older than p_published (p_failed when it ended otherwise for some endpoint). Failed deliveries and rows nobody could
-- route end `cancelled` after p_failed. p_attempts removes only rows of attempts that were not final: the final rows
-- prove that the event was fanned out. NULL keeps for ever.
CREATE FUNCTION @schema@.purge(p_published interval, p_failed interval, p_attempts interval, p_batch int)
RETURNS TABLE (events bigint, deliveries bigint, attempts bigint)
LANGUAGE plpgsql
SET search_path = pg_catalog, @schema@, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_indexscan = on SET enable_nestloop = on SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_now        constant timestamptz := clock_timestamp();
    v_published  constant timestamptz := coalesce(v_now - p_published, '-infinity');
    v_failed     constant timestamptz := coalesce(v_now - p_failed, '-infinity');
    v_attempts   constant timestamptz := coalesce(v_now - p_attempts, '-infinity');
    v_state      jsonb;
    v_at         bigint;
    v_attempt_at bigint;
    v_seen       bigint;
    v_young      boolean;
    v_last       bigint;
    v_events     bigint;
    v_deliveries bigint;
    v_history    bigint;
    v_old        bigint;
    v_upto       bigint;
BEGIN
    SELECT m.state INTO v_state FROM @schema@.maintenance m WHERE m.name = 'retention' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 0::bigint, 0::bigint, 0::bigint;
        RETURN;
    END IF;
    v_at := coalesce((v_state ->> 'at')::bigint, 0);
    v_attempt_at := coalesce((v_state ->> 'attempt_at')::bigint, 0);

    WITH walked AS MATERIALIZED (
        SELECT e.id, e.created_at < greatest(v_published, v_failed) AS old
        FROM @schema@.event e WHERE e.id > v_at ORDER BY e.id LIMIT p_batch
    ), given_up AS (
        DELETE FROM @schema@.delivery d
        USING (SELECT x.tid, x.id FROM walked w CROSS JOIN LATERAL (
                   SELECT f.ctid AS tid, f.id FROM @schema@.delivery f
                   WHERE f.event = w.id AND w.old AND f.claimed_by IS NULL
                     AND (f.status = 'failed' OR f.status = 'unrouted' AND f.due_at = 'infinity')
                     AND coalesce((SELECT max(a.finished_at) FROM @schema@.attempt a WHERE a.event = f.event AND a.delivery = f.id),
                                  (SELECT e.created_at FROM @schema@.event e WHERE e.id = f.event)) < v_failed
                   OFFSET 0) x) g
        WHERE d.ctid = g.tid AND d.id = g.id AND d.status IN ('failed', 'unrouted')
        RETURNING d.id, d.event, d.endpoint, d.attempts
    ), noted AS (
        INSERT INTO @schema@.attempt (delivery, event, endpoint, attempt, outcome, error, started_at)
        SELECT g.id, g.event, g.endpoint, g.attempts, 'cancelled', 'retention', v_now FROM given_up g
    ), finished AS MATERIALIZED (
        -- The row that retention itself wrote does not make an event young again.
        SELECT w.id FROM walked w
        CROSS JOIN LATERAL (
            SELECT max(a.finished_at) FILTER (WHERE a.error IS DISTINCT FROM 'retention') AS last_at,
                   count(*) AS n,
                   bool_or(a.outcome <> 'published') FILTER (WHERE a.last) AS badly
            FROM (SELECT h.finished_at, h.outcome, h.error,
                         row_number() OVER (PARTITION BY h.endpoint ORDER BY h.id DESC) = 1 AS last
                  FROM @schema@.attempt h WHERE h.event = w.id) a
            OFFSET 0) f
        WHERE w.old AND f.n > 0
          AND coalesce(f.last_at, '-infinity') < CASE WHEN f.badly THEN v_failed ELSE v_published END
          AND NOT EXISTS (SELECT FROM @schema@.delivery d WHERE d.event = w.id)
    ), history AS (
        DELETE FROM @schema@.attempt a
        USING (SELECT h.tid FROM finished f CROSS JOIN LATERAL (
                   SELECT x.ctid AS tid FROM @schema@.attempt x WHERE x.event = f.id OFFSET 0) h) t
        WHERE a.ctid = t.tid RETURNING 1
    ), gone AS (
        DELETE FROM @schema@.event e
        USING (SELECT v.tid FROM finished f CROSS JOIN LATERAL (
                   SELECT x.ctid AS tid FROM @schema@.event x WHERE x.id = f.id LIMIT 1) v) t
        WHERE e.ctid = t.tid RETURNING 1)
    SELECT (SELECT count(*) FROM walked), (SELECT coalesce(bool_or(NOT w.old), false) FROM walked w), (SELECT max(w.id) FROM walked w),
           (SELECT count(*) FROM gone), (SELECT count(*) FROM given_up), (SELECT count(*) FROM history)
      INTO v_seen, v_young, v_last, v_events, v_deliveries, v_history;
    v_at := CASE WHEN v_seen < p_batch OR v_young THEN 0 ELSE v_last END;

    -- finished_at rises with id, near enough: everything behind the mark is done.
    WITH walked AS MATERIALIZED (
        SELECT a.id, a.ctid AS tid, a.outcome, a.finished_at < v_attempts AS old
        FROM @schema@.attempt a WHERE a.id > v_attempt_at ORDER BY a.id LIMIT p_batch
    ), gone AS (
        DELETE FROM @schema@.attempt a USING walked w
        WHERE a.ctid = w.tid AND w.old AND w.outcome IN ('retried', 'lost') RETURNING 1)
    SELECT (SELECT count(*) FROM gone),
           coalesce((SELECT min(w.id) - 1 FROM walked w WHERE NOT w.old), (SELECT max(w.id) FROM walked w))
      INTO v_old, v_upto;
    UPDATE @schema@.maintenance m
    SET last_run = v_now, state = jsonb_build_object('at', v_at, 'attempt_at', coalesce(v_upto, v_attempt_at))
    WHERE m.name = 'retention';
    RETURN QUERY SELECT v_events, v_deliveries, v_history + v_old;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA @schema@ FROM PUBLIC;
