#!/usr/bin/python3
"""Runs the database's cases on a private PostgreSQL: tests/sql/run.py [part of a name...]. One line per case."""

import importlib
import os
import sys
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from support import Cluster, Database, migrate  # noqa: E402

MODULES = ["cases_tables", "cases_fan_out", "cases_claim", "cases_keys", "cases_settle", "cases_relay", "cases_circuit",
           "cases_endpoint_state", "cases_routing", "cases_sweep", "cases_retention", "cases_hand_work", "cases_status", "cases_plans"]


def cases(wanted):
    for module in MODULES:
        loaded = importlib.import_module(module)
        for name, function in vars(loaded).items():
            if name.startswith("case_") and (not wanted or any(w in module + name for w in wanted)):
                yield f"{module[6:]}: {name[5:].replace('_', ' ')}", function


def main():
    passed = failed = 0
    with Cluster() as cluster:
        cluster.execute("postgres", "CREATE ROLE relay LOGIN")
        cluster.execute("postgres", "CREATE ROLE app LOGIN")
        template = cluster.create_database().rsplit("/", 1)[1]
        cluster.execute("postgres", f'ALTER DATABASE {template} OWNER TO relay')
        migrate(cluster.socket_uri(template, "relay"))
        # What `outboxd migrate --grant-writer app` grants, and no more.
        for grant in ["USAGE ON SCHEMA outbox", "INSERT ON outbox.event", "SELECT (id, event_id) ON outbox.event"]:
            cluster.execute(cluster.uri(template), f"GRANT {grant} TO app")
        for name, function in cases(sys.argv[1:]):
            database = Database(cluster, cluster.create_database(template))
            try:
                function(database)
                passed += 1
                print(f"ok      {name}", flush=True)
            except Exception:
                failed += 1
                print(f"FAILED  {name}\n{traceback.format_exc()}", flush=True)
            finally:
                database.close()
                cluster.execute("postgres", f"DROP DATABASE {database.name} WITH (FORCE)")
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
