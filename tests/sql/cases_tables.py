"""The tables: what an application may write, and what is refused with which words."""

from support import MIGRATIONS, Session, expect, migrate, migrations


def case_bad_events_are_refused_by_a_constraint_whose_name_says_why(db):
    for columns, constraint in [
        ({"event_id": "no spaces"}, "event_id_is_1_to_128_of_letters_digits_underscore_hyphen"),
        ({"event_id": ""}, "event_id_is_1_to_128_of_letters_digits_underscore_hyphen"),
        ({"event_id": "x" * 129}, "event_id_is_1_to_128_of_letters_digits_underscore_hyphen"),
        ({"event_id": "line\n"}, "event_id_is_1_to_128_of_letters_digits_underscore_hyphen"),
        ({"event_type": ""}, "event_type_is_1_to_255_characters_without_controls"),
        ({"event_type": "a\tb"}, "event_type_is_1_to_255_characters_without_controls"),
        ({"event_type": "x" * 256}, "event_type_is_1_to_255_characters_without_controls"),
        ({"payload": None}, "event_exactly_one_body"),
        ({"payload_bytes": b"x"}, "event_exactly_one_body"),
        ({"endpoint": "a", "url": "https://b"}, "event_at_most_one_of_endpoint_and_url"),
        ({"ordering_key": ""}, "event_ordering_key_is_1_to_255_characters"),
        ({"tenant_id": "x" * 256}, "event_tenant_id_is_1_to_255_characters"),
        ({"url": "https://x/" + "y" * 8192}, "event_url_is_at_most_8192_characters"),
        ({"max_attempts": 0}, "event_max_attempts_is_at_least_1"),
    ]:
        columns = {"event_type": "t", "payload": "{}", **columns}
        code, text = db.sql.error(f"INSERT INTO outbox.event ({', '.join(columns)}) VALUES ({', '.join(['%s'] * len(columns))})",
                                  *columns.values())
        assert code == "23514" and constraint in text, (columns, code, text)


def case_a_refused_event_s_error_tells_the_fact_and_no_value(db):
    with db.sql.connection.cursor() as cursor:
        try:
            cursor.execute("INSERT INTO outbox.event (event_type, payload, tenant_id) VALUES ('t', '{}', repeat('secret', 50))")
            raise AssertionError("it was taken")
        except Exception as error:
            said = error.diag
    expect((said.constraint_name, said.table_name), ("event_tenant_id_is_1_to_255_characters", "event"))
    expect(said.message_detail, "tenant_id has 300 characters.")
    assert "secret" not in (said.message_primary + (said.context or "")), said.context


def case_unsendable_headers_urls_and_content_types_are_accepted(db):
    db.insert(headers="[1]", url="no url at all", content_type="x\ny", traceparent="junk")


def case_longest_index_values_of_four_byte_characters_fit(db):
    wide = "\U0001F600" * 255
    event = db.insert(ordering_key=wide, breaker_key=wide, url="https://x")
    expect(len(db.delivery(event, "lane")[0][0]), 255)


def case_payload_keeps_its_bytes_B69(db):
    text = '{"b":1, "a":1.0,  "a":12345678901234567890, "z":"\\u0000"}\r\n '
    event = db.insert(payload=text)
    expect(db.sql.value("SELECT payload::text FROM outbox.event WHERE id = %s", event), text)
    expect(db.delivery(event, "size")[0][0], len(text))


def case_jsonb_is_taken_as_a_payload(db):
    db.sql.execute("INSERT INTO outbox.event (event_type, payload) VALUES ('t', '{\"a\": 1}'::jsonb)")


def case_an_update_of_an_event_is_refused_with_the_reason(db):
    event = db.insert()
    code, text = db.sql.error("UPDATE outbox.event SET payload = '{}' WHERE id = %s", event)
    assert code == "55000" and "outbox.event is insert-only" in text, (code, text)


def case_truncate_by_the_owner_takes_live_work_and_history_along_B77(db):
    db.endpoint("a")
    relay = db.relay()
    db.insert()
    _, rows = db.claim(relay)
    db.settle(relay, (rows[0]["id"], "published"))
    db.insert()
    db.sql.execute("TRUNCATE outbox.event RESTART IDENTITY")
    expect(db.sql.row("SELECT (SELECT count(*) FROM outbox.delivery), (SELECT count(*) FROM outbox.attempt)"), (0, 0))
    expect(db.insert(), 1)
    expect(len(db.delivery(1)), 1)


def case_bad_endpoint_names_are_refused(db):
    for name in ["", "-a", "a b", "x" * 65, "url:x", "a\n"]:
        expect(db.sql.error("INSERT INTO outbox.endpoint (name, url) VALUES (%s, 'x')", name)[0], "23514", name)


def case_another_schema_name_with_odd_characters_works(db):
    owner = Session(db.cluster.socket_uri(db.cluster.create_database().rsplit("/", 1)[1]))
    migrate(owner.connection.dsn, '"My-Schema 2"')
    owner.execute('INSERT INTO "My-Schema 2".endpoint (name, url) VALUES (\'a\', \'x\')')
    owner.execute('LISTEN "My-Schema 2_wake"')
    relay = owner.value('SELECT id FROM "My-Schema 2".register_relay(\'r\', \'h\', 1, \'v\', \'1h\')')
    owner.execute('SELECT "My-Schema 2".set_wake(%s, true)', relay)
    owner.execute('INSERT INTO "My-Schema 2".event (event_type, payload) VALUES (\'t\', \'{}\')')
    expect(owner.value('SELECT lane FROM "My-Schema 2".delivery'), "a")
    expect(owner.value('SELECT status FROM "My-Schema 2".status'), "pending")
    expect([n.payload for n in owner.connection.notifies], ["relay", "lane:a"])
    expect(owner.value("SELECT \"My-Schema 2\".wake_channel()"), "My-Schema 2_wake")
    expect(owner.value("SELECT count(*) FROM pg_namespace WHERE nspname = 'outbox'"), 0)
    owner.close()


def case_no_function_but_triggers_and_the_check_may_be_called_by_everybody(db):
    open_to_all = db.sql.rows(
        "SELECT p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'outbox' "
        "AND p.prorettype <> 'trigger'::regtype AND has_function_privilege('app', p.oid, 'execute')")
    expect(open_to_all, [("event_is_sound",)])  # a CHECK runs as whoever inserts


def case_every_function_with_a_body_of_its_own_pins_search_path(db):
    # match is put into its callers' plans and may have no SET clause; patterns and url_lane name no object at all.
    unpinned = db.sql.rows(
        "SELECT p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'outbox' "
        "AND NOT coalesce(p.proconfig::text LIKE '%%search_path=pg_catalog, outbox, pg_temp%%', false) ORDER BY 1")
    expect([name for name, in unpinned], ["match", "patterns", "url_lane"])


def case_inbox_says_new_once(db):
    expect([db.sql.value("SELECT outbox.inbox_seen('s', 'e')") for _ in range(2)], [True, False])
    other = db.session()
    other.execute("BEGIN")
    other.value("SELECT outbox.inbox_seen('s', 'f')")
    waiting = db.session().in_background("SELECT outbox.inbox_seen('s', 'f')")
    waiting.is_blocked(db.sql)
    other.execute("ROLLBACK")
    expect(waiting.finish(), [(True,)])


def case_migration_files_are_numbered_without_a_gap(db):
    numbers = [int(path.rsplit("/", 1)[1].split("_")[0]) for path in migrations()]
    expect(numbers, list(range(1, len(numbers) + 1)), MIGRATIONS)
