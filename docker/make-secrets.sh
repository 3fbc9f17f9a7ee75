#!/bin/bash
# Role: makes the secrets that docker/compose.yaml mounts, once; they stay out of the repository and of the images.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"
mkdir -p secrets
write_once() {
  # World-readable inside a directory that is not: the containers read them under accounts of their own.
  [ -e "secrets/$1" ] || printf '%s\n' "$2" >"secrets/$1"
}
chmod 0711 secrets
write_once postgres_password "$(openssl rand -hex 16)"
write_once database_url "postgresql://outboxd:$(openssl rand -hex 16)@database/app"
write_once signing_secret "whsec_$(openssl rand -base64 24)"
write_once admin_token "$(openssl rand -hex 16)"
chmod 0644 secrets/*
echo "secrets are in $(pwd)/secrets"
