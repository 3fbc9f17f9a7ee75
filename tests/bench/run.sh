#!/bin/bash
# Role: installs what is missing, builds, and measures every row of the table: throughput, CPU, latency, memory, WAL, beside peers and beside what was kept.
# Nothing here is part of tests/run.sh: figures depend on the machine, and want it for themselves. Usage: tests/bench/run.sh --help
# Environment: OUTBOXD_BIN, OUTBOXD_BENCH_RECEIVER and OUTBOXD_BENCH_MICRO (a directory) name binaries built elsewhere; with all three nothing is built.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
# shellcheck source=tests/support/prepare.sh
. tests/support/prepare.sh
case " $* " in *" --help "* | *" -h "*) exec /usr/bin/python3 tests/bench/bench.py --help ;; esac

# Two benches at once measure each other.
exec 8>>"${OUTBOXD_BENCH_LOCK:-/tmp/outboxd-bench.lock}"
if ! flock -n 8; then
  say "Another bench is running; waiting for it."
  flock 8
fi
if [ -z "${OUTBOXD_BIN:-}" ] || [ -z "${OUTBOXD_BENCH_RECEIVER:-}" ] || [ -z "${OUTBOXD_BENCH_MICRO:-}" ]; then
  install_packages "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}"
  build_preset release outboxd bench_receiver micro_request micro_mapping
else
  install_packages "${RUN_PACKAGES[@]}"
fi
# 1,024 connections of the relay and as many of the receiver.
ulimit -n "$(ulimit -Hn)" 2>/dev/null || true
exec /usr/bin/python3 tests/bench/bench.py "$@"
