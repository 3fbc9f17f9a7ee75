-- What a user looks at: one row per event and endpoint. Built as look-ups from the event outwards (LATERAL), so that a
-- filter on event_id or event touches a handful of index entries however long the history is. Live rows speak for
-- themselves; a finished delivery is its endpoint's last final attempt row, unless a replay made it live again.
CREATE VIEW @schema@.status AS
SELECT e.id AS event, e.event_id, e.event_type, s.endpoint, CASE WHEN s.endpoint IS NULL THEN e.url END AS url,
       s.delivery, s.status, s.attempts, s.last_outcome, s.last_error, s.next_attempt_at, s.published_at, e.created_at
FROM @schema@.event e
CROSS JOIN LATERAL (
    SELECT coalesce(d.endpoint, CASE WHEN d.status = 'unrouted' AND d.fan_after IS NULL THEN e.endpoint::text COLLATE "C" END) AS endpoint,
           d.id AS delivery,
           CASE WHEN d.status = 'pending' AND l.outcome IN ('retried', 'lost') THEN 'retrying'
                WHEN d.status = 'unrouted' AND d.fan_after IS NOT NULL THEN 'pending'
                ELSE d.status END AS status,
           d.attempts, l.outcome AS last_outcome, l.error AS last_error,
           CASE WHEN d.status = 'pending' THEN d.due_at END AS next_attempt_at,
           NULL::timestamptz AS published_at
    FROM @schema@.delivery d
    LEFT JOIN LATERAL (
        SELECT a.outcome, coalesce(a.error, a.error_class) AS error
        FROM @schema@.attempt a WHERE a.event = d.event AND a.delivery = d.id ORDER BY a.id DESC LIMIT 1) l ON true
    WHERE d.event = e.id
    UNION ALL
    SELECT f.endpoint, f.delivery, f.outcome, f.attempt, f.outcome, f.error, NULL,
           CASE WHEN f.outcome = 'published' THEN f.finished_at END
    FROM (SELECT DISTINCT ON (a.endpoint) a.endpoint, a.delivery, a.outcome, a.attempt,
                 coalesce(a.error, a.error_class) AS error, a.finished_at
          FROM @schema@.attempt a
          WHERE a.event = e.id AND a.outcome IN ('published', 'failed', 'expired', 'cancelled')
          ORDER BY a.endpoint, a.id DESC) f
    WHERE NOT EXISTS (SELECT FROM @schema@.delivery d WHERE d.event = e.id AND coalesce(d.endpoint, '') = coalesce(f.endpoint, ''))
    UNION ALL
    SELECT e.endpoint::text COLLATE "C", NULL, 'pending', 0, NULL, NULL, NULL, NULL
    WHERE NOT EXISTS (SELECT FROM @schema@.delivery d WHERE d.event = e.id)
      AND NOT EXISTS (SELECT FROM @schema@.attempt a WHERE a.event = e.id)
) s;
COMMENT ON VIEW @schema@.status IS 'one row per event and endpoint: pending, retrying, published, failed, expired, cancelled, unrouted';
