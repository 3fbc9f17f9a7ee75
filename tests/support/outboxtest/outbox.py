"""What an application and an operator do with the schema, over a session that survives a restart of the server."""

import json

import psycopg2

from .cluster import connect, wait_for


class Outbox:
    """`schema` is always `outbox`. Every statement commits by itself."""

    def __init__(self, uri):
        self.uri = uri
        self._session = None

    def rows(self, sql, parameters=None):
        for last in (False, True):
            try:
                if self._session is None or self._session.closed:
                    self._session = connect(self.uri)
                with self._session.cursor() as cursor:
                    cursor.execute(sql, parameters)
                    return cursor.fetchall() if cursor.description else []
            except (psycopg2.OperationalError, psycopg2.InterfaceError):
                self.close()
                if last:
                    raise
        return []

    def value(self, sql, parameters=None):
        return self.rows(sql, parameters)[0][0]

    def insert(self, event_type="test.event", payload="{}", **columns):
        """One event; its event_id. `payload=None` for a body in payload_bytes."""
        return self.insert_many(1, event_type, payload, **columns)[0]

    def insert_many(self, count, event_type="test.event", payload="{}", **columns):
        """`count` equal events in one statement; their event_ids in order of id."""
        columns = {"event_type": event_type, **columns}
        if payload is not None:
            columns["payload"] = payload
        values = [json.dumps(v) if isinstance(v, (dict, list)) else v for v in columns.values()]
        casts = {"headers": "::jsonb", "payload": "::json", "deliver_at": "::timestamptz", "expires_at": "::timestamptz"}
        places = ", ".join("%s" + casts.get(name, "") for name in columns)
        rows = self.rows(f"INSERT INTO outbox.event ({', '.join(columns)}) SELECT {places} FROM generate_series(1, {int(count)}) "
                         "RETURNING id, event_id", values)
        return [event_id for _, event_id in sorted(rows)]

    def add_endpoint(self, name, url, events=("*",), settings=None, secrets=(), tenant=None):
        """An endpoint by plain SQL, as an application would write it."""
        self.rows("INSERT INTO outbox.endpoint (name, url, events, settings, tenant_id) VALUES (%s, %s, %s, %s, %s)",
                  (name, url, list(events), json.dumps(settings or {}), tenant))
        for secret in secrets:
            self.rows("INSERT INTO outbox.endpoint_secret (endpoint, secret) VALUES (%s, %s)", (name, secret))

    def statuses(self, where="true"):
        """{'published': 10, ...} over outbox.status."""
        return dict(self.rows(f"SELECT status, count(*)::int FROM outbox.status WHERE {where} GROUP BY 1"))

    def outcomes(self, where="true"):
        """{'published': 10, 'retried': 2, ...} over the history."""
        return dict(self.rows(f"SELECT outcome, count(*)::int FROM outbox.attempt a WHERE {where} GROUP BY 1"))

    def history(self, event_id):
        """The attempts of one event in order: dicts of all columns."""
        rows = self.rows("SELECT to_jsonb(a) FROM outbox.attempt a JOIN outbox.event e ON e.id = a.event "
                         "WHERE e.event_id = %s ORDER BY a.id", (event_id,))
        return [row[0] for row in rows]

    def status_of(self, event_id):
        """The rows of outbox.status of one event, as dicts."""
        return [row[0] for row in self.rows("SELECT to_jsonb(s) FROM outbox.status s WHERE s.event_id = %s", (event_id,))]

    def wait_outcomes(self, count, outcome="published", timeout=60.0, where="true"):
        """Waits until the history holds `count` rows of one outcome."""
        try:
            wait_for(lambda: self.outcomes(where).get(outcome, 0) >= count, timeout, f"{count} {outcome}", 0.05)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; history {self.outcomes(where)}, status {self.statuses()}") from None

    def twice_published(self):
        """How many deliveries were settled as published more than once. Always 0."""
        return self.value("SELECT count(*) FROM (SELECT FROM outbox.attempt WHERE outcome = 'published' "
                          "GROUP BY delivery HAVING count(*) > 1) x")

    def close(self):
        if self._session is not None:
            try:
                self._session.close()
            except psycopg2.Error:
                pass
        self._session = None
