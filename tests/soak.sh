#!/bin/bash
# Role: real relays, real writers with rollbacks, receivers that fail, hang, close and redirect; kill -9 about once a second, PostgreSQL killed now and then.
# Ends with the figures and `N passed, N failed`. Usage: tests/soak.sh [--minutes N] [--relays N] [--seed N]; OUTBOXD_BIN names another binary.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"
export OUTBOXD_BIN=${OUTBOXD_BIN:-$PWD/../build/release/daemon/outboxd}
export PYTHONPATH=$PWD/support
exec /usr/bin/python3 soak/soak.py "$@"
