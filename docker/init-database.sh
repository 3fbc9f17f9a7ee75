#!/bin/bash
# Role: run once by the postgres image, before the first start: the relay's own role (no superuser) and its database.
set -euo pipefail
url=$(cat /run/secrets/database_url)
password=${url#*://outboxd:}
password=${password%%@*}
psql -v ON_ERROR_STOP=1 -v password="$password" -U postgres -d postgres <<'SQL'
CREATE ROLE outboxd LOGIN PASSWORD :'password';
CREATE DATABASE app OWNER outboxd;
SQL
