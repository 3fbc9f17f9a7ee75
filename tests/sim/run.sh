#!/bin/bash
# Role: runs the simulation. --short: for the suite, a fixed share of seeds and every mutation, half a minute on two quiet cores.
# --minutes N: new seeds for that long. --seed S: that seed alone (with --minutes: from there on). --hours H: simulated hours per seed.
# Prints the seeds; ends with `N passed, N failed`.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.." || exit 1
program=${OUTBOXD_SIMULATION:-build/release/tests/sim/simulation}
minutes=''
seed=''
hours=2
usage() { echo "usage: tests/sim/run.sh [--short | --minutes N] [--seed S] [--hours H]" >&2; }
while [ $# -gt 0 ]; do
  case $1 in
    --short) ;;
    --minutes) minutes=${2:?--minutes needs a number}; shift ;;
    --seed) seed=${2:?--seed needs a number}; shift ;;
    --hours) hours=${2:?--hours needs a number}; shift ;;
    *) usage; exit 2 ;;
  esac
  shift
done
if [ ! -x "$program" ]; then
  echo "$program is not there: build it first (cmake --preset release && cmake --build build/release --target simulation)" >&2
  echo "0 passed, 1 failed"
  exit 1
fi

# Two processes side by side: both write what they found into a file, which is shown when both have ended.
results=$(mktemp -d /tmp/outboxd-simulation-XXXXXX)
trap 'rm -rf "$results"' EXIT
trap 'kill $one $two 2>/dev/null; exit 130' INT TERM
side_by_side() {
  "$program" "${share[@]}" --parts 2 --part 0 >"$results/1" 2>&1 &
  one=$!
  "$program" "${share[@]}" --parts 2 --part 1 >"$results/2" 2>&1 &
  two=$!
  local status=0
  wait "$one" || status=1
  wait "$two" || status=1
  return $status
}

if [ -n "$seed" ] && [ -z "$minutes" ]; then
  exec "$program" --seed "$seed" --seeds 1 --hours "$hours"
fi
if [ -n "$minutes" ]; then
  [ -n "$seed" ] || seed=$((RANDOM * 32768 + RANDOM + 1))
  share=(--seed "$seed" --seconds $((minutes * 60)) --hours "$hours")
else
  # The suite's share is the same every time, so that a failure is the change's and not the day's.
  share=(--seed 1 --seeds 6 --hours "$hours" --mutations)
fi
side_by_side
status=$?
passed=0
failed=0
for file in "$results/1" "$results/2"; do
  line=$(grep -aoE '^[0-9]+ passed, [0-9]+ failed$' "$file" | tail -n 1)
  grep -avE '^[0-9]+ passed, [0-9]+ failed$' "$file"
  # A process that died has counted nothing.
  [ -n "$line" ] || line="0 passed, 1 failed"
  passed=$((passed + ${line%% passed*}))
  bad=${line##*, }
  failed=$((failed + ${bad%% failed*}))
done
[ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
