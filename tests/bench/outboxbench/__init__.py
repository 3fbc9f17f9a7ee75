"""The benchmarks: a private PostgreSQL with default settings, a receiver, relays as a user would start them, and the table of what they reach. Standard library and psycopg2 only."""
