-- Circuits, shared by all relays: one row per lane that is not closed. Every change is one statement on one row, so the
-- row lock alone decides between relays, and every change is announced.

-- Opens the circuit. Each opening in a row waits twice as long, up to p_max_open. A circuit that is open already is left
-- as it is: late failures of requests that were on the wire must not stretch it.
CREATE FUNCTION @schema@.circuit_trip(p_lane text, p_failures int, p_open_for interval, p_max_open interval, p_error text)
RETURNS SETOF @schema@.circuit
LANGUAGE plpgsql SET search_path = pg_catalog, @schema@, pg_temp AS $$
DECLARE
    v_now constant timestamptz := clock_timestamp();
    v_row @schema@.circuit;
BEGIN
    INSERT INTO @schema@.circuit AS c (lane, state, failures, opens, opened_at, open_until, changed_at, last_error)
    VALUES (p_lane, 'open', p_failures, 1, v_now, v_now + least(p_open_for, p_max_open), v_now, p_error)
    ON CONFLICT (lane) DO UPDATE
    SET state = 'open', failures = excluded.failures, successes = 0, opens = c.opens + 1, probes = 0, probe_by = NULL,
        probe_until = NULL, opened_at = v_now, changed_at = v_now, last_error = excluded.last_error,
        open_until = v_now + least(p_open_for * power(2, least(c.opens, 20)), p_max_open)
    WHERE c.state = 'half_open'
    RETURNING c.* INTO v_row;
    IF NOT FOUND THEN
        RETURN QUERY SELECT c.* FROM @schema@.circuit c WHERE c.lane = p_lane;
        RETURN;
    END IF;
    PERFORM pg_notify(@schema@.wake_channel(), 'circuit');
    RETURN NEXT v_row;
END $$;

-- Asks for the right to send one probe. True for at most p_max_probes at a time, and not before open_until. Slots of a
-- prober that died come free when p_hold has passed.
CREATE FUNCTION @schema@.circuit_probe(p_lane text, p_relay bigint, p_max_probes int, p_hold interval) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, @schema@, pg_temp AS $$
DECLARE
    v_now    constant timestamptz := clock_timestamp();
    v_before text;
BEGIN
    SELECT c.state INTO v_before FROM @schema@.circuit c
    WHERE c.lane = p_lane
      AND (c.state = 'open' AND c.open_until <= v_now
           OR c.state = 'half_open' AND (c.probes < p_max_probes OR c.probe_until <= v_now))
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE @schema@.circuit c
    SET state = 'half_open', changed_at = CASE WHEN c.state = 'open' THEN v_now ELSE c.changed_at END,
        successes = CASE WHEN c.state = 'open' THEN 0 ELSE c.successes END,
        probes = CASE WHEN c.state = 'open' OR c.probe_until <= v_now THEN 1 ELSE c.probes + 1 END,
        probe_by = p_relay, probe_until = v_now + p_hold
    WHERE c.lane = p_lane;
    IF v_before = 'open' THEN
        PERFORM pg_notify(@schema@.wake_channel(), 'circuit');
    END IF;
    RETURN true;
END $$;

-- The result of a probe; returns the new state. Enough successes close the circuit (the row goes), a failure opens it
-- again for longer. p_ok null gives the slot back without a verdict (the probe was not sent).
CREATE FUNCTION @schema@.circuit_result(p_lane text, p_relay bigint, p_ok boolean, p_successes_needed int,
                                        p_open_for interval, p_max_open interval, p_error text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, @schema@, pg_temp AS $$
DECLARE
    v_row @schema@.circuit;
BEGIN
    SELECT c.* INTO v_row FROM @schema@.circuit c WHERE c.lane = p_lane FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'closed';
    END IF;
    IF v_row.state = 'open' THEN
        RETURN 'open';  -- another probe has failed meanwhile
    END IF;
    IF p_ok AND v_row.successes + 1 >= p_successes_needed THEN
        DELETE FROM @schema@.circuit c WHERE c.lane = p_lane;
        PERFORM pg_notify(@schema@.wake_channel(), 'circuit');
        RETURN 'closed';
    END IF;
    IF NOT p_ok THEN
        PERFORM @schema@.circuit_trip(p_lane, v_row.failures + 1, p_open_for, p_max_open, p_error);
        RETURN 'open';
    END IF;
    UPDATE @schema@.circuit c
    SET probes = greatest(c.probes - 1, 0), successes = c.successes + (p_ok IS TRUE)::int
    -- A single slot that another relay has taken over meanwhile is not this relay's to give back.
    WHERE c.lane = p_lane AND (p_ok OR c.probe_by = p_relay OR c.probes > 1);
    -- A slot is free: who waits for it may probe.
    PERFORM pg_notify(@schema@.wake_channel(), 'circuit');
    RETURN 'half_open';
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA @schema@ FROM PUBLIC;
