#!/bin/bash
# Role: builds the libFuzzer targets with clang and runs each for a while. --short: for the suite; --minutes N: each target that long.
# Ends with `N passed, N failed`. A finding leaves its input in build/fuzz/findings.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.." || exit 1
seconds=8
case "${1:-}" in
  --minutes) seconds=$((60 * ${2:?--minutes needs a number})) ;;
  --short | "") ;;
  *) echo "usage: tests/fuzz/run.sh [--short | --minutes N]" >&2; exit 2 ;;
esac
build=build/fuzz
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1" -DCMAKE_CXX_COMPILER=clang++ -DOUTBOXD_FUZZ=ON >"$build.log" 2>&1 ||
  { cat "$build.log"; echo "0 passed, 1 failed"; exit 1; }
targets=()
for source in tests/fuzz/*.cpp; do targets+=("fuzz_$(basename "$source" .cpp)"); done
ninja -C "$build" "${targets[@]}" >>"$build.log" 2>&1 || { tail -n 40 "$build.log"; echo "0 passed, ${#targets[@]} failed"; exit 1; }
passed=0
failed=0
mkdir -p "$build/findings"
for target in "${targets[@]}"; do
  mkdir -p "$build/corpus/$target"
  if "$build/tests/fuzz/$target" -max_total_time="$seconds" -max_len=8192 -timeout=10 -rss_limit_mb=2048 -artifact_prefix="$build/findings/$target-" \
    -print_final_stats=1 "$build/corpus/$target" >"$build/$target.log" 2>&1; then
    passed=$((passed + 1))
    echo "ok $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$build/$target.log") runs"
  else
    failed=$((failed + 1))
    echo "not ok $target"
    tail -n 30 "$build/$target.log"
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
