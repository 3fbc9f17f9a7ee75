-- Claim and settle: the hot path. All planner settings are pinned on the functions, because the statistics of a queue
-- are always wrong (empty, then a million rows, then empty) and one flipped plan costs a thousand times the work. Bitmap
-- scans stay off: they never mark dead index entries, so that each later claim would read them again.

-- Takes due deliveries for a relay, with their events. One statement finds and locks the rows (SKIP LOCKED: relays never
-- wait for each other), one writes claimed_by, which no index names (HOT), and reads the events. No lock outlives the call.
--
-- Row 1 is the report, id NULL: now (server clock, seconds), xmin (all transactions below had ended before the scans),
-- xmax (those from here on had not begun to write), cursor (lane after which discovery goes on, null = begin anew), wrapped,
-- more (due rows were left for want of bytes), keys (per lane whose ordering keys were not all visited the last one; null =
-- the walk that began at p_after_key came round). With now, xmin and xmax a relay keeps a lower bound per lane: rows that
-- commit later than a claim have due_at >= that claim's now, or belong to a transaction below its xmax; once a later
-- claim's xmin has passed that xmax, nothing new can appear below that now.
--
-- Known lanes: p_lanes with p_limits, bound (due_at, id) already claimed, and the ordering key visited last. Then up to
-- p_discover_lanes further lanes that are neither in p_lanes nor in p_exclude. An ordering key offers only its oldest
-- row, and that only when it is neither claimed nor waiting nor (failed and blocking).
CREATE FUNCTION @schema@.claim(
    p_relay bigint, p_epoch int, p_lanes text[], p_limits int[], p_bound_due timestamptz[], p_bound_id bigint[],
    p_after_key text[], p_exclude text[], p_discover_after text, p_discover_lanes int, p_discover_limit int,
    p_max_rows int, p_max_bytes bigint, p_fetch_max int)
RETURNS TABLE (id bigint, event bigint, endpoint text, lane text, ordering_key text, attempts int, rescued int,
               due_at timestamptz, expires_at timestamptz, size int, format text, max_attempts smallint, report jsonb,
               event_id text, event_type text, payload json, payload_bytes bytea, content_type text, tenant_id text, url text,
               headers text, subject text, source text, traceparent text, tracestate text, created_at timestamptz)
LANGUAGE plpgsql ROWS 256
SET search_path = pg_catalog, @schema@, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_indexscan = on SET enable_nestloop = on SET enable_tidscan = on SET enable_memoize = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_now      constant timestamptz := statement_timestamp();
    v_snapshot constant pg_snapshot := pg_current_snapshot();
    -- The next transaction id that will be given out. The snapshot's own xmax is only the one after the latest that ended: a
    -- younger transaction may have been at work for long. age() counts from the next id, as long as this one has none.
    v_next     constant bigint      := pg_snapshot_xmax(v_snapshot)::text::bigint + age(pg_snapshot_xmax(v_snapshot)::xid);
    -- Sorts after every lane and every ordering key (both have at most 255 characters, collation "C").
    v_top      constant text := repeat(chr(1114111), 256);
    v_lanes    text[]        := coalesce(p_lanes, '{}');
    v_limits   int[]         := coalesce(p_limits, '{}');
    v_due      timestamptz[] := p_bound_due;
    v_id       bigint[]      := p_bound_id;
    v_keys     text[]        := p_after_key;
    v_known    text[];
    v_found    text[];
    v_cursor   text;
    v_wrapped  boolean := false;
    v_odd      constant int := (random() < 0.5)::int;
    v_tids     tid[];
    v_cut      jsonb;
    v_more     boolean := false;
    v_bytes    bigint;
    v_done     boolean := false;
BEGIN
    -- Reads nothing. Takes the lock on event before all others, the order in which whoever changes the tables goes, and fails
    -- at once when a column is gone, not only when there is something to claim.
    PERFORM e.event_id, e.event_type, e.payload, e.payload_bytes, e.content_type, e.tenant_id, e.url, e.headers, e.subject,
            e.source, e.traceparent, e.tracestate, e.created_at FROM @schema@.event e WHERE false;

    PERFORM FROM @schema@.relay r WHERE r.id = p_relay AND r.epoch = p_epoch AND r.lease_until > clock_timestamp();
    IF NOT FOUND THEN
        RAISE EXCEPTION 'relay % has no lease with epoch %', p_relay, p_epoch USING ERRCODE = 'OB001';
    END IF;

    IF p_discover_lanes > 0 THEN
        -- Skip scan over the distinct lanes of both due indexes. It reads the gaps between the known lanes only: a known
        -- lane may carry a hundred thousand dead index entries at its head, and must not be stepped through to skip it.
        v_known := ARRAY(SELECT DISTINCT k.lane COLLATE "C" FROM unnest(v_lanes || p_exclude) AS k(lane)
                         WHERE k.lane IS NOT NULL ORDER BY 1);
        WITH RECURSIVE walk(cur, gap, lane, found, seen, wrapped, done) AS (
            SELECT coalesce(p_discover_after, '') COLLATE "C", 1, NULL::text COLLATE "C", 0, 0, false, false
            UNION ALL
            SELECT CASE WHEN n.lane IS NOT NULL THEN n.lane
                        WHEN g.hi < g.stop THEN g.hi
                        WHEN w.wrapped OR p_discover_after IS NULL THEN w.cur ELSE '' END,
                   CASE WHEN n.lane IS NOT NULL THEN g.gap WHEN g.hi < g.stop THEN g.gap + 1 ELSE 1 END,
                   CASE WHEN n.due THEN n.lane END,
                   w.found + (n.due IS TRUE)::int,
                   w.seen + 1,
                   w.wrapped OR n.lane IS NULL AND g.hi >= g.stop AND p_discover_after IS NOT NULL,
                   n.lane IS NULL AND g.hi >= g.stop AND (w.wrapped OR p_discover_after IS NULL)
            FROM walk w
            CROSS JOIN LATERAL (
                SELECT s.gap, s.stop, least(coalesce(v_known[s.gap], v_top), s.stop) COLLATE "C" AS hi
                FROM (SELECT CASE WHEN w.seen = 0 OR w.gap = 1
                                  THEN 1 + (SELECT count(*)::int FROM unnest(v_known) AS k(lane) WHERE k.lane COLLATE "C" <= w.cur)
                                  ELSE w.gap END AS gap,
                             -- Round the corner the walk ends behind the lane it began after.
                             CASE WHEN w.wrapped THEN p_discover_after || chr(1) ELSE v_top END COLLATE "C" AS stop OFFSET 0) s
                OFFSET 0) g
            LEFT JOIN LATERAL (
                SELECT f.lane, bool_or(f.due) AS due
                FROM ((SELECT d.lane, d.due_at <= v_now AS due FROM @schema@.delivery d
                       WHERE d.status = 'pending' AND d.ordering_key IS NULL AND d.lane > w.cur AND d.lane < g.hi
                       ORDER BY d.lane, d.due_at, d.id LIMIT 1)
                      UNION ALL
                      (SELECT d.lane, true FROM @schema@.delivery d
                       WHERE d.ordering_key IS NOT NULL AND (d.status = 'pending' OR d.blocks)
                         AND d.lane > w.cur AND d.lane < g.hi
                       ORDER BY d.lane, d.ordering_key, d.event LIMIT 1)) f
                GROUP BY f.lane ORDER BY f.lane LIMIT 1) n ON true
            WHERE NOT w.done AND w.found < p_discover_lanes
              AND w.seen < 4 * p_discover_lanes + 64 + 2 * cardinality(v_known)
        )
        SELECT array_agg(w.lane ORDER BY w.seen) FILTER (WHERE w.lane IS NOT NULL),
               (array_agg(CASE WHEN NOT w.done THEN w.cur END ORDER BY w.seen DESC))[1], bool_or(w.wrapped OR w.done)
          INTO v_found, v_cursor, v_wrapped FROM walk w;
        v_cursor := nullif(v_cursor, '');
        IF v_found IS NOT NULL THEN
            -- Found lanes have no bound and no last key: only the lists of the known ones are cut to their length.
            v_due := v_due[1:cardinality(v_lanes)];
            v_id := v_id[1:cardinality(v_lanes)];
            v_keys := v_keys[1:cardinality(v_lanes)];
            v_limits := v_limits[1:cardinality(v_lanes)] || array_fill(p_discover_limit, ARRAY[cardinality(v_found)]);
            v_lanes := v_lanes || v_found;
        END IF;
    END IF;

    -- Lanes without ordering keys, the usual case, need neither the walk over keys nor running sums, unless bytes are short.
    IF coalesce(cardinality(array_remove(v_keys, NULL)), 0) = 0 AND NOT EXISTS (
        SELECT FROM unnest(v_lanes) AS l(lane)
        CROSS JOIN LATERAL (SELECT FROM @schema@.delivery d
                            WHERE d.lane = l.lane AND d.ordering_key IS NOT NULL AND (d.status = 'pending' OR d.blocks)
                            LIMIT 1) k) THEN
        SELECT array_agg(p.tid), coalesce(sum(p.size) FILTER (WHERE p.size <= p_fetch_max), 0) INTO v_tids, v_bytes
        FROM (SELECT r.tid, r.size
              FROM unnest(v_lanes, v_limits, v_due, v_id) AS l(lane, lim, due, id)
              CROSS JOIN LATERAL (
                  SELECT d.ctid AS tid, d.size FROM @schema@.delivery d
                  WHERE d.lane = l.lane AND d.status = 'pending' AND d.ordering_key IS NULL
                    AND (d.due_at, d.id) > (coalesce(l.due, '-infinity'), coalesce(l.id, 0))
                    AND d.due_at <= v_now AND d.claimed_by IS NULL
                  ORDER BY d.due_at, d.id LIMIT l.lim FOR UPDATE SKIP LOCKED) r
              LIMIT p_max_rows) p;
        v_done := v_bytes <= p_max_bytes;
    END IF;

    IF NOT v_done THEN
        WITH picked AS MATERIALIZED (
            SELECT l.ord, l.lane, l.after_key, k.last_key, k.cut, x.n, y.of, x.tid, x.size
            FROM unnest(v_lanes, v_limits, v_due, v_id, v_keys) WITH ORDINALITY AS l(lane, lim, due, id, after_key, ord)
            CROSS JOIN LATERAL (
                SELECT coalesce(array_agg(r.tid), '{}') AS tids, coalesce(array_agg(r.size), '{}') AS sizes
                FROM (SELECT d.ctid AS tid, d.size FROM @schema@.delivery d
                      WHERE d.lane = l.lane AND d.status = 'pending' AND d.ordering_key IS NULL
                        AND (d.due_at, d.id) > (coalesce(l.due, '-infinity'), coalesce(l.id, 0))
                        AND d.due_at <= v_now AND d.claimed_by IS NULL
                      ORDER BY d.due_at, d.id LIMIT l.lim FOR UPDATE SKIP LOCKED) r) u
            -- Both kinds of rows get half when both have enough; the odd one goes to either by chance.
            CROSS JOIN LATERAL (SELECT l.lim - least(cardinality(u.tids), (l.lim + v_odd) / 2) AS lim OFFSET 0) h
            CROSS JOIN LATERAL (
                -- A loose scan: one index descent per ordering key finds the next key and its oldest row at once, however
                -- many rows wait behind it.
                WITH RECURSIVE walk(key, tid, ok, wrapped, seen, taken) AS (
                    SELECT f.ordering_key, f.tid, f.ok, f.wrapped, 1, f.ok::int
                    FROM ((SELECT d.ordering_key, d.ctid AS tid,
                                  d.status = 'pending' AND d.claimed_by IS NULL AND d.due_at <= v_now AS ok, false AS wrapped
                           FROM @schema@.delivery d
                           WHERE d.lane = l.lane AND d.ordering_key IS NOT NULL AND (d.status = 'pending' OR d.blocks)
                             AND d.ordering_key > coalesce(l.after_key, '')
                           ORDER BY d.ordering_key, d.event LIMIT 1)
                          UNION ALL
                          (SELECT d.ordering_key, d.ctid, d.status = 'pending' AND d.claimed_by IS NULL AND d.due_at <= v_now, true
                           FROM @schema@.delivery d
                           WHERE d.lane = l.lane AND d.ordering_key IS NOT NULL AND (d.status = 'pending' OR d.blocks)
                             AND d.ordering_key <= l.after_key
                           ORDER BY d.ordering_key, d.event LIMIT 1)
                          LIMIT 1) f
                    WHERE h.lim > 0
                    UNION ALL
                    SELECT n.ordering_key, n.tid, n.ok, n.wrapped, w.seen + 1, w.taken + n.ok::int
                    FROM walk w
                    CROSS JOIN LATERAL (
                        (SELECT d.ordering_key, d.ctid AS tid,
                                d.status = 'pending' AND d.claimed_by IS NULL AND d.due_at <= v_now AS ok, w.wrapped
                         FROM @schema@.delivery d
                         WHERE d.lane = l.lane AND d.ordering_key IS NOT NULL AND (d.status = 'pending' OR d.blocks)
                           AND d.ordering_key > w.key
                           AND d.ordering_key <= CASE WHEN w.wrapped THEN l.after_key ELSE v_top END
                         ORDER BY d.ordering_key, d.event LIMIT 1)
                        UNION ALL
                        (SELECT d.ordering_key, d.ctid, d.status = 'pending' AND d.claimed_by IS NULL AND d.due_at <= v_now, true
                         FROM @schema@.delivery d
                         WHERE NOT w.wrapped AND d.lane = l.lane AND d.ordering_key IS NOT NULL
                           AND (d.status = 'pending' OR d.blocks) AND d.ordering_key <= l.after_key
                         ORDER BY d.ordering_key, d.event LIMIT 1)
                        LIMIT 1) n
                    WHERE w.seen < 256 AND w.taken < h.lim
                )
                SELECT coalesce(array_agg(w.tid) FILTER (WHERE w.ok), '{}') AS tids,
                       (array_agg(w.key))[count(*)] AS last_key,
                       h.lim = 0 OR coalesce(max(w.seen), 0) >= 256 OR coalesce(max(w.taken), 0) >= h.lim AS cut
                FROM walk w) k
            CROSS JOIN LATERAL (
                -- The walk read without locks: lock now, and skip what another relay took meanwhile.
                SELECT coalesce(array_agg(r.tid), '{}') AS tids, coalesce(array_agg(r.size), '{}') AS sizes
                FROM (SELECT d.ctid AS tid, d.size FROM @schema@.delivery d
                      WHERE d.ctid = ANY (k.tids) AND d.claimed_by IS NULL AND d.status = 'pending'
                      FOR UPDATE SKIP LOCKED) r) o
            CROSS JOIN LATERAL (SELECT l.lim - cardinality(o.tids) AS keep OFFSET 0) q
            LEFT JOIN LATERAL unnest(u.tids[1:q.keep] || o.tids, u.sizes[1:q.keep] || o.sizes)
                WITH ORDINALITY AS x(tid, size, n) ON true
            CROSS JOIN LATERAL (SELECT least(cardinality(u.tids), greatest(q.keep, 0)) + cardinality(o.tids)) AS y(of)
            LIMIT p_max_rows + cardinality(v_lanes)  -- a lane with nothing due is one row as well
        ), summed AS MATERIALIZED (
            -- Bodies larger than p_fetch_max are not sent along and need no room; the first row is always taken, or a large
            -- one would stand at the head for ever.
            SELECT p.*, row_number() OVER w AS pos, sum(CASE WHEN p.size > p_fetch_max THEN 0 ELSE p.size END) OVER w AS bytes
            FROM picked p WHERE p.tid IS NOT NULL WINDOW w AS (ORDER BY p.ord, p.n ROWS UNBOUNDED PRECEDING)
        ), taken AS MATERIALIZED (
            SELECT s.* FROM summed s WHERE s.pos = 1 OR s.bytes <= p_max_bytes AND s.pos <= p_max_rows
        )
        SELECT (SELECT array_agg(t.tid) FROM taken t),
               -- A lane that was cut by rows or bytes keeps its old place: its ordering keys were visited but not taken.
               (SELECT jsonb_object_agg(p.lane, CASE WHEN p.cut THEN p.last_key END)
                FROM picked p
                WHERE p.n IS NOT DISTINCT FROM nullif(p.of, 0) AND (p.cut AND p.last_key IS NOT NULL OR NOT p.cut AND p.after_key IS NOT NULL)
                  AND (p.tid IS NULL OR EXISTS (SELECT FROM taken t WHERE t.ord = p.ord AND t.n = p.n))),
               (SELECT count(*) FROM summed s WHERE s.pos <= p_max_rows) > (SELECT count(*) FROM taken)
          INTO v_tids, v_cut, v_more;
    END IF;

    report := jsonb_build_object('now', round(extract(epoch FROM v_now), 6),
        'xmin', pg_snapshot_xmin(v_snapshot)::text::bigint, 'xmax', v_next,
        'cursor', v_cursor, 'wrapped', v_wrapped, 'more', v_more, 'keys', coalesce(v_cut, '{}'));
    RETURN NEXT;
    report := NULL;
    IF v_tids IS NULL THEN
        RETURN;
    END IF;

    -- Rescue, retirement and a new epoch lock this row FOR UPDATE: whoever ends this lease waits until the claim has
    -- committed, so no row can be claimed for a relay that is gone. Heartbeats do not conflict with KEY SHARE. Only taken
    -- when there is something to claim, so that an idle poll writes nothing.
    PERFORM FROM @schema@.relay r
    WHERE r.id = p_relay AND r.epoch = p_epoch AND r.lease_until > clock_timestamp() FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'relay % has no lease with epoch %', p_relay, p_epoch USING ERRCODE = 'OB001';
    END IF;

    IF v_done THEN
        -- Rows without ordering keys: their claim need not be on disk before they are sent. A server that crashes may forget
        -- it, and then they are sent twice, as after any crash; with a key, a second sending could come after its successor.
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;

    -- By ctid: the rows are locked by this transaction and cannot have moved. The events are read by the same statement,
    -- whose snapshot is younger than the one that found the rows: an event that is missing here was removed.
    RETURN QUERY
    WITH mine AS (
        UPDATE @schema@.delivery d SET claimed_by = p_relay
        WHERE d.ctid = ANY (v_tids) AND d.claimed_by IS NULL AND d.status = 'pending'
        RETURNING d.id, d.event, d.endpoint, d.lane, d.ordering_key, d.attempts, d.rescued, d.due_at, d.expires_at,
                  d.size, d.format, d.max_attempts)
    SELECT m.*, NULL::jsonb, e.*
    FROM (SELECT * FROM mine ORDER BY due_at, id) m
    LEFT JOIN LATERAL (
        SELECT v.event_id, v.event_type, CASE WHEN m.size <= p_fetch_max THEN v.payload END,
               CASE WHEN m.size <= p_fetch_max THEN v.payload_bytes END, v.content_type, v.tenant_id, v.url,
               v.headers::text, v.subject, v.source, v.traceparent, v.tracestate, v.created_at
        FROM @schema@.event v WHERE v.id = m.event) e ON true;
END $$;

-- Writes the results of attempts and returns the deliveries really changed; fewer than sent is a counted event. published
-- is written whoever holds the row now, since the receiver has it; everything else only while this relay holds the claim.
-- Rows go in order of id, so that two relays that settle the same rows do not deadlock.
-- Every statement finds its rows by id = ANY(array), which has one plan, the primary key, and the place of a row in the
-- caller's arrays by width_bucket (a binary search in the sorted ids): no join, so no statistics that could turn the plan
-- into a walk over the live table.
CREATE FUNCTION @schema@.settle(
    p_relay bigint, p_ids bigint[], p_outcomes text[], p_counts boolean[], p_http_status int[], p_error_class text[],
    p_error text[], p_excerpt text[], p_duration_ms int[], p_started_ago_ms int[], p_retry_in_ms bigint[], p_phases int[],
    p_format text[], p_blocks boolean[])
RETURNS SETOF bigint
LANGUAGE plpgsql ROWS 256
SET search_path = pg_catalog, @schema@, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_indexscan = on
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_now constant timestamptz := clock_timestamp();
    v_ids bigint[];
    v_ord int[];
BEGIN
    -- Deliveries that end: DELETE and history in one statement. published needs no claim.
    IF p_outcomes <@ ARRAY['published'] AND cardinality(p_ids) = cardinality(p_outcomes) AND array_position(p_ids, NULL) IS NULL
       AND NOT EXISTS (SELECT FROM unnest(p_ids, p_ids[2:]) AS u(a, b) WHERE u.a >= u.b) THEN
        v_ids := nullif(p_ids, '{}');  -- the usual batch: each id once, in order, and the place is the bucket itself
    ELSE
        SELECT array_agg(x.id ORDER BY x.id), array_agg(x.ord ORDER BY x.id) INTO v_ids, v_ord
        FROM (SELECT DISTINCT ON (s.id) s.id, s.ord::int AS ord, s.outcome
              FROM unnest(p_ids, p_outcomes) WITH ORDINALITY AS s(id, outcome, ord)
              -- One result per delivery: a success beats whatever else is said of it.
              ORDER BY s.id, s.outcome = 'published' DESC, s.ord) x
        WHERE x.id IS NOT NULL AND x.outcome IN ('published', 'expired', 'cancelled');
    END IF;
    IF v_ids IS NOT NULL THEN
        RETURN QUERY
        WITH gone AS (
            DELETE FROM @schema@.delivery d
            WHERE d.id = ANY (v_ids)
              AND (d.claimed_by = p_relay OR p_outcomes[coalesce(v_ord[width_bucket(d.id, v_ids)], width_bucket(d.id, v_ids))] = 'published')
            RETURNING d.id, d.event, d.endpoint, d.attempts, coalesce(v_ord[width_bucket(d.id, v_ids)], width_bucket(d.id, v_ids)) AS ord)
        INSERT INTO @schema@.attempt
            (delivery, event, endpoint, attempt, outcome, http_status, error_class, error, response_excerpt, duration_ms,
             started_at, relay, finished_at, dns_ms, connect_ms, tls_ms, first_byte_ms)
        SELECT g.id, g.event, g.endpoint, g.attempts + (p_outcomes[g.ord] = 'published')::int, p_outcomes[g.ord],
               p_http_status[g.ord], p_error_class[g.ord], p_error[g.ord], p_excerpt[g.ord], p_duration_ms[g.ord],
               v_now - coalesce(p_started_ago_ms[g.ord], 0) * interval '1 millisecond', p_relay, v_now,
               p_phases[4 * g.ord - 3], p_phases[4 * g.ord - 2], p_phases[4 * g.ord - 1], p_phases[4 * g.ord]
        FROM gone g
        RETURNING delivery;
    END IF;
    IF p_outcomes <@ ARRAY['published'] THEN
        RETURN;
    END IF;

    -- Deliveries that stay. A release is no attempt and leaves no history.
    SELECT array_agg(x.id ORDER BY x.id), array_agg(x.ord ORDER BY x.id) INTO v_ids, v_ord
    FROM (SELECT DISTINCT ON (s.id) s.id, s.ord::int AS ord, s.outcome
          FROM unnest(p_ids, p_outcomes) WITH ORDINALITY AS s(id, outcome, ord)
          ORDER BY s.id, s.outcome = 'published' DESC, s.ord) x
    WHERE x.id IS NOT NULL AND x.outcome IN ('retried', 'failed', 'released');
    IF v_ids IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH kept AS (
        UPDATE @schema@.delivery d
        SET (claimed_by, status, blocks, attempts, format, due_at) = (
            SELECT NULL::bigint,
                   CASE o.outcome WHEN 'failed' THEN 'failed' ELSE d.status END,
                   o.outcome = 'failed' AND d.ordering_key IS NOT NULL AND coalesce(p_blocks[o.ord], false),
                   d.attempts + (o.outcome <> 'released' AND coalesce(p_counts[o.ord], true))::int,
                   CASE WHEN o.outcome = 'released' THEN d.format ELSE coalesce(d.format, p_format[o.ord]) END,
                   CASE WHEN o.outcome = 'failed' THEN d.due_at
                        ELSE v_now + greatest(coalesce(p_retry_in_ms[o.ord], 0), 0) * interval '1 millisecond' END
            FROM (SELECT x.ord, p_outcomes[x.ord] AS outcome FROM (SELECT v_ord[width_bucket(d.id, v_ids)] AS ord) x) o)
        WHERE d.id = ANY (v_ids) AND d.claimed_by = p_relay AND d.status = 'pending'
        RETURNING d.id, d.event, d.endpoint, d.attempts, d.due_at, v_ord[width_bucket(d.id, v_ids)] AS ord
    ), noted AS (
        INSERT INTO @schema@.attempt
            (delivery, event, endpoint, attempt, outcome, http_status, error_class, error, response_excerpt, duration_ms,
             started_at, next_attempt_at, relay, finished_at, dns_ms, connect_ms, tls_ms, first_byte_ms)
        SELECT k.id, k.event, k.endpoint, k.attempts + (NOT coalesce(p_counts[k.ord], true))::int, p_outcomes[k.ord],
               p_http_status[k.ord], p_error_class[k.ord], p_error[k.ord], p_excerpt[k.ord], p_duration_ms[k.ord],
               v_now - coalesce(p_started_ago_ms[k.ord], 0) * interval '1 millisecond',
               CASE WHEN p_outcomes[k.ord] = 'retried' THEN k.due_at END, p_relay, v_now,
               p_phases[4 * k.ord - 3], p_phases[4 * k.ord - 2], p_phases[4 * k.ord - 1], p_phases[4 * k.ord]
        FROM kept k WHERE p_outcomes[k.ord] <> 'released')
    SELECT k.id FROM kept k;
    IF 'failed' = ANY (p_outcomes) THEN
        PERFORM @schema@.failure_events(ARRAY(SELECT x.id FROM unnest(p_ids, p_outcomes) AS x(id, outcome) WHERE x.outcome = 'failed'));
    END IF;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA @schema@ FROM PUBLIC;
