-- What an operator does by hand. Nothing here touches a row a relay holds: it may be on the wire.

-- Sends an event again: same event, same bytes. p_endpoint null = everywhere it was addressed to. One row per endpoint:
-- 'replayed', 'already pending', 'unrouted', or why not. A failed row is used again, so that its history goes on under
-- one id. A deadline that has passed does not hold for a replay, or the replay would only end `expired` again.
CREATE FUNCTION @schema@.replay(p_event bigint, p_endpoint text)
RETURNS TABLE (delivery bigint, endpoint text, lane text, result text)
LANGUAGE plpgsql SET search_path = pg_catalog, @schema@, pg_temp
SET enable_seqscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_event   @schema@.event;
    v_names   text[];
    v_name    text;
    v_row     @schema@.delivery;
    v_tenant  text;
    v_now     constant timestamptz := clock_timestamp();
    v_expires timestamptz;
BEGIN
    SELECT e.* INTO v_event FROM @schema@.event e WHERE e.id = p_event;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    v_expires := CASE WHEN v_event.expires_at > v_now THEN v_event.expires_at END;
    IF p_endpoint IS NOT NULL THEN
        v_names := ARRAY[p_endpoint];
    ELSE
        -- '' stands for the direct URL and for a row that waits for a route.
        v_names := ARRAY(SELECT DISTINCT coalesce(x.endpoint, '')
                         FROM (SELECT a.endpoint FROM @schema@.attempt a WHERE a.event = p_event
                               UNION ALL SELECT d.endpoint FROM @schema@.delivery d WHERE d.event = p_event) x ORDER BY 1);
        IF v_names = '{}' THEN
            v_names := CASE WHEN v_event.url IS NOT NULL THEN '{""}'
                ELSE (SELECT m.names FROM @schema@.match(v_event.event_type, v_event.tenant_id, v_event.endpoint, '', NULL) m) END;
        END IF;
    END IF;

    FOREACH v_name IN ARRAY v_names LOOP
        delivery := NULL;
        endpoint := nullif(v_name, '');
        lane := CASE WHEN v_name = '' AND v_event.url IS NOT NULL THEN @schema@.url_lane(v_event.url, v_event.breaker_key) ELSE v_name END;
        SELECT d.* INTO v_row FROM @schema@.delivery d
        WHERE d.event = p_event AND coalesce(d.endpoint, '') = v_name FOR UPDATE;
        IF FOUND THEN
            delivery := v_row.id;
            lane := v_row.lane;
            IF v_row.claimed_by IS NOT NULL THEN
                result := 'already pending';
            ELSIF v_row.status = 'failed' THEN
                UPDATE @schema@.delivery d
                SET status = 'pending', attempts = 0, rescued = 0, blocks = false, expires_at = v_expires, due_at = clock_timestamp()
                WHERE d.id = v_row.id;
                result := 'replayed';
            ELSE
                UPDATE @schema@.delivery d SET due_at = clock_timestamp() WHERE d.id = v_row.id;
                result := CASE v_row.status WHEN 'unrouted' THEN 'unrouted' ELSE 'already pending' END;
            END IF;
            RETURN NEXT;
            CONTINUE;
        END IF;
        IF v_name = '' AND v_event.url IS NULL THEN
            CONTINUE;  -- the history of a row that was never routed
        END IF;
        IF v_name <> '' THEN
            SELECT n.tenant_id INTO v_tenant FROM @schema@.endpoint n WHERE n.name = v_name;
            result := CASE WHEN NOT FOUND THEN 'no such endpoint'
                           WHEN v_tenant <> coalesce(v_event.tenant_id, '') THEN 'endpoint belongs to another tenant' END;
            IF result IS NOT NULL THEN
                RETURN NEXT;
                CONTINUE;
            END IF;
        END IF;
        INSERT INTO @schema@.delivery AS d (event, endpoint, lane, ordering_key, due_at, expires_at, size, max_attempts)
        VALUES (p_event, endpoint, lane, v_event.ordering_key, clock_timestamp(), v_expires,
                coalesce(octet_length(v_event.payload_bytes), octet_length(v_event.payload::text)), v_event.max_attempts)
        ON CONFLICT DO NOTHING RETURNING d.id INTO delivery;
        result := CASE WHEN delivery IS NULL THEN 'already pending' ELSE 'replayed' END;
        RETURN NEXT;
    END LOOP;
    IF EXISTS (SELECT FROM @schema@.relay r WHERE r.wake) THEN
        PERFORM pg_notify(@schema@.wake_channel(), 'any');
    END IF;
END $$;

-- 'ok', or the reason in words.
CREATE FUNCTION @schema@.cancel(p_delivery bigint) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, @schema@, pg_temp AS $$
DECLARE
    v_row @schema@.delivery;
BEGIN
    SELECT d.* INTO v_row FROM @schema@.delivery d WHERE d.id = p_delivery FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'no such delivery';
    ELSIF v_row.claimed_by IS NOT NULL THEN
        RETURN 'claimed by relay ' || v_row.claimed_by;
    END IF;
    DELETE FROM @schema@.delivery d WHERE d.id = p_delivery;
    INSERT INTO @schema@.attempt (delivery, event, endpoint, attempt, outcome, error, started_at)
    VALUES (v_row.id, v_row.event, v_row.endpoint, v_row.attempts, 'cancelled', 'by hand', clock_timestamp());
    -- The next one of its ordering key may go now.
    IF v_row.ordering_key IS NOT NULL AND EXISTS (SELECT FROM @schema@.relay r WHERE r.wake) THEN
        PERFORM pg_notify(@schema@.wake_channel(), 'lane:' || v_row.lane);
    END IF;
    RETURN 'ok';
END $$;

-- Tries again now. A failed row begins its schedule anew; a waiting one only stops waiting; an unrouted one is looked at.
CREATE FUNCTION @schema@.retry(p_delivery bigint) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, @schema@, pg_temp AS $$
DECLARE
    v_row @schema@.delivery;
BEGIN
    SELECT d.* INTO v_row FROM @schema@.delivery d WHERE d.id = p_delivery FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'no such delivery';
    ELSIF v_row.claimed_by IS NOT NULL THEN
        RETURN 'claimed by relay ' || v_row.claimed_by;
    END IF;
    UPDATE @schema@.delivery d
    SET status = CASE v_row.status WHEN 'failed' THEN 'pending' ELSE d.status END,
        attempts = CASE v_row.status WHEN 'failed' THEN 0 ELSE d.attempts END,
        rescued = CASE v_row.status WHEN 'failed' THEN 0 ELSE d.rescued END,
        expires_at = CASE WHEN d.expires_at <= clock_timestamp() AND v_row.status = 'failed' THEN NULL ELSE d.expires_at END,
        blocks = false, due_at = clock_timestamp()
    WHERE d.id = p_delivery;
    IF EXISTS (SELECT FROM @schema@.relay r WHERE r.wake) THEN
        PERFORM pg_notify(@schema@.wake_channel(), CASE WHEN v_row.status = 'unrouted' THEN 'route' ELSE 'lane:' || v_row.lane END);
    END IF;
    RETURN 'ok';
END $$;

-- Lets an ordering key go on past its failed rows, which stay failed.
CREATE FUNCTION @schema@.unblock(p_lane text, p_ordering_key text) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, @schema@, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_count bigint;
BEGIN
    UPDATE @schema@.delivery d SET blocks = false
    WHERE d.lane = p_lane AND d.ordering_key = p_ordering_key AND d.ordering_key IS NOT NULL AND d.blocks;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count > 0 AND EXISTS (SELECT FROM @schema@.relay r WHERE r.wake) THEN
        PERFORM pg_notify(@schema@.wake_channel(), 'lane:' || p_lane);
    END IF;
    RETURN v_count;
END $$;

-- Removes an endpoint: from the first call on it matches nothing and is disabled; each call ends up to p_batch of its
-- deliveries `cancelled`; what a relay holds is waited for, since it may be on the wire. Repeat until removed is true.
CREATE FUNCTION @schema@.remove_endpoint(p_name text, p_batch int DEFAULT 1000)
RETURNS TABLE (cancelled bigint, removed boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, @schema@, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_indexscan = on SET enable_nestloop = on SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_cancelled bigint;
    v_left      boolean;
BEGIN
    UPDATE @schema@.endpoint n
    SET enabled = false, events = '{}', disabled_reason = 'being removed', disabled_at = clock_timestamp()
    WHERE n.name = p_name AND (n.enabled OR n.events <> '{}');
    -- A direct URL's lane begins with 'url:', which is no endpoint name; so the lane alone names the endpoint's rows.
    WITH mine AS MATERIALIZED (
        SELECT * FROM (SELECT d.ctid AS tid, d.id FROM @schema@.delivery d
                       WHERE d.lane = p_name AND d.status = 'pending' AND d.ordering_key IS NULL AND d.claimed_by IS NULL
                       LIMIT p_batch FOR UPDATE SKIP LOCKED) a
        UNION ALL
        SELECT * FROM (SELECT d.ctid, d.id FROM @schema@.delivery d
                       WHERE d.lane = p_name AND d.ordering_key IS NOT NULL AND (d.status = 'pending' OR d.blocks)
                         AND d.claimed_by IS NULL AND d.status = 'pending'
                       LIMIT p_batch FOR UPDATE SKIP LOCKED) b
        UNION ALL
        SELECT * FROM (SELECT d.ctid, d.id FROM @schema@.delivery d
                       WHERE d.lane = p_name AND d.status = 'failed' LIMIT p_batch FOR UPDATE SKIP LOCKED) c
        LIMIT p_batch
    ), gone AS (
        DELETE FROM @schema@.delivery d USING mine m WHERE d.ctid = m.tid AND d.id = m.id AND d.claimed_by IS NULL
        RETURNING d.id, d.event, d.endpoint, d.attempts
    ), noted AS (
        INSERT INTO @schema@.attempt (delivery, event, endpoint, attempt, outcome, error, started_at)
        SELECT g.id, g.event, g.endpoint, g.attempts, 'cancelled', 'endpoint removed', clock_timestamp() FROM gone g)
    SELECT count(*) INTO v_cancelled FROM gone;
    v_left := EXISTS (SELECT FROM @schema@.delivery d WHERE d.lane = p_name AND d.status = 'pending' AND d.ordering_key IS NULL)
        OR EXISTS (SELECT FROM @schema@.delivery d WHERE d.lane = p_name AND d.ordering_key IS NOT NULL AND (d.status = 'pending' OR d.blocks))
        OR EXISTS (SELECT FROM @schema@.delivery d WHERE d.lane = p_name AND d.status = 'failed');
    IF NOT v_left THEN
        DELETE FROM @schema@.endpoint n WHERE n.name = p_name;
        DELETE FROM @schema@.circuit c WHERE c.lane = p_name;
    END IF;
    RETURN QUERY SELECT v_cancelled, NOT v_left;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA @schema@ FROM PUBLIC;
-- The CHECK of event runs it as whoever inserts.
GRANT EXECUTE ON FUNCTION @schema@.event_is_sound(text, text, boolean, boolean, text, text, text, text, text, int) TO PUBLIC;
