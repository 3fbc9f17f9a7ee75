#!/bin/bash
# Role: installs what is missing, builds, runs every suite, and ends with the line `N passed, N failed`.
# The exit status is 0 only when something ran and nothing failed. Written for a bare Debian 12.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.." || exit 1
# shellcheck source=tests/support/prepare.sh
. tests/support/prepare.sh

usage() {
  cat <<'TEXT'
Usage: tests/run.sh [OPTION]...
  --only SUITE    run this suite alone (repeatable): support unit contract faults integration sql system tidy sim fuzz asan
  --asan          the sanitizer build for unit, contract, faults and integration, not for unit alone
  --no-asan       no sanitizer build at all
  --soak          a soak of real relays at the end; --minutes N (default 10) says how long
  --no-build      take the binaries that are there
  --list          name the suites and stop
  -h, --help      this text
Environment: OUTBOXD_BIN (another binary for the system suite), TEST_ARGUMENTS (handed to pytest and Catch2 suites).
TEXT
}

all_suites=(tidy support unit contract faults integration sql system sim fuzz asan)
only=()
asan=unit
build=yes
soak=no
minutes=10
while [ $# -gt 0 ]; do
  case $1 in
    --only) only+=("${2:?--only needs a suite}"); shift ;;
    --asan) asan=all ;;
    --no-asan) asan=none ;;
    --soak) soak=yes ;;
    --minutes) minutes=${2:?--minutes needs a number}; shift ;;
    --no-build) build=no ;;
    --list) printf '%s\n' "${all_suites[@]}"; exit 0 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
for suite in "${only[@]}"; do
  if [[ " ${all_suites[*]} " != *" $suite "* ]]; then
    say "No suite is called $suite; there are: ${all_suites[*]}"
    exit 2
  fi
done
# Whoever asks for the sanitizer suite by name wants all of it.
[[ " ${only[*]:-} " != *" asan "* ]] || [ "$asan" != unit ] || asan=all

wanted() { [ "${#only[@]}" -eq 0 ] || [[ " ${only[*]} " == *" $1 "* ]]; }

results=$(mktemp -d /tmp/outboxd-run-XXXXXX)
trap 'rm -rf "$results"' EXIT
trap 'exit 130' INT TERM
# Servers of tests live here; another account must be able to walk the path.
chmod 0755 "$results"
mkdir "$results/t"
export OUTBOXD_TEST_TMP="$results/t"
ulimit -n "$(ulimit -Hn)" 2>/dev/null || true
read -ra extra <<<"${TEST_ARGUMENTS:-}"
began=$SECONDS
since=$SECONDS
passed=0
failed=0
summary=()

# tally NAME PASSED FAILED [NOTE]
tally() {
  passed=$((passed + $2))
  failed=$((failed + $3))
  summary+=("$(printf '%-22s %5d passed %4d failed %5d s   %s' "$1" "$2" "$3" $((SECONDS - since)) "${4:-}")")
  since=$SECONDS
}

# The last line `N passed, N failed` of a program's output decides; a program that prints none, or ends badly without
# a failure in its count, has failed.
run_counting() {
  local name=$1 limit=$2 status line good=0 bad=0 note=""
  shift 2
  say "== $name"
  timeout --foreground -k 20 "$limit" "$@" 2>&1 | tee "$results/out"
  status=${PIPESTATUS[0]}
  if [ "$status" -ne 0 ] && [ "$name" != tidy ]; then
    second_try "$name"
    note="unsteady: second try"
    timeout --foreground -k 20 "$limit" "$@" 2>&1 | tee "$results/out"
    status=${PIPESTATUS[0]}
  fi
  line=$(grep -aoE '^[0-9]+ passed, [0-9]+ failed' "$results/out" | tail -n 1)
  if [ -n "$line" ]; then
    good=${line%% passed*}
    bad=${line##*, }
    bad=${bad%% failed*}
  fi
  if [ "$bad" -eq 0 ] && { [ "$status" -ne 0 ] || [ -z "$line" ]; }; then bad=1; fi
  tally "$name" "$good" "$bad" "$note$([ "$status" -eq 0 ] || echo " exit $status")"
}

# Tests of killed processes and cut connections meet a busy machine now and then: what failed is run once more, alone, and the summary
# says so. What fails twice has failed.
second_try() { say "== $1: something failed; once more"; }

# The executables write their counts to a file (tests/support/main.cpp); one that crashed wrote none.
run_catch() {
  local name=$1 program=$2 good=0 bad=0
  shift 2
  say "== $name"
  rm -f "$results/count"
  OUTBOXD_TEST_COUNT="$results/count" timeout --foreground -k 20 1800 "$program" "$@" "${extra[@]}"
  local status=$? note=""
  if [ "$status" -ne 0 ]; then
    second_try "$name"
    note="unsteady: second try"
    rm -f "$results/count"
    OUTBOXD_TEST_COUNT="$results/count" timeout --foreground -k 20 1800 "$program" "$@" "${extra[@]}"
    status=$?
  fi
  [ ! -s "$results/count" ] || read -r good bad <"$results/count"
  if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
  tally "$name" "$good" "$bad" "$note$([ "$status" -eq 0 ] || echo " exit $status")"
}

# "good bad skipped" of the report; a report that is missing or cut off counts as one failure.
count_cases() {
  /usr/bin/python3 - "$results/junit.xml" <<'PY' 2>/dev/null
import sys, xml.etree.ElementTree as tree
good = bad = skipped = 0
for case in tree.parse(sys.argv[1]).iter("testcase"):
    kinds = {child.tag for child in case}
    if kinds & {"failure", "error"}: bad += 1
    elif "skipped" in kinds: skipped += 1
    else: good += 1
print(good, bad, skipped)
PY
}

run_pytest() {
  local name=$1 status counts
  shift
  say "== $name"
  rm -f "$results/junit.xml"
  local note="" steady=0
  rm -rf "$results/cache"
  timeout --foreground -k 20 3600 /usr/bin/python3 -m pytest -q -ra --durations=5 -p cacheprovider -o cache_dir="$results/cache" --junitxml="$results/junit.xml" "$@" "${extra[@]}"
  status=$?
  if [ "$status" -eq 1 ]; then
    # The first report's good ones stay; the failed ones are run again.
    steady=$(count_cases | cut -d' ' -f1)
    second_try "$name"
    timeout --foreground -k 20 3600 /usr/bin/python3 -m pytest -q -ra -p cacheprovider -o cache_dir="$results/cache" --last-failed --junitxml="$results/junit.xml" "$@" "${extra[@]}" -n 0
    status=$?
    note="unsteady: second try "
  fi
  counts=$(count_cases) || counts="0 1 0"
  local good bad skipped
  read -r good bad skipped <<<"$counts"
  if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
  tally "$name" $((good + steady)) "$bad" "$note$([ "$skipped" -eq 0 ] || echo "$skipped skipped")"
}

# The Catch2 suites of one build directory whose names match.
run_catch_suites() {
  local preset=$1 pattern=$2 prefix=$3 program name
  for program in build/"$preset"/tests/*; do
    name=$(basename "$program")
    if [ -f "$program" ] && [ -x "$program" ] && [[ $name =~ $pattern ]]; then run_catch "$prefix$name" "$program"; fi
  done
}

packages=("${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}" "${TEST_PACKAGES[@]}")
if [ -e tests/fuzz/run.sh ] && wanted fuzz; then packages+=("${FUZZ_PACKAGES[@]}"); fi
if ! install_packages "${packages[@]}"; then
  say "Packages could not be installed."
  echo "0 passed, 1 failed"
  exit 1
fi

if [ "$build" = yes ]; then
  say "== build (release)"
  # What did compile is run all the same; the total says that something is wrong.
  build_preset release || tally 'build' 0 1 'see above'
  summary+=("$(printf 'build %d s' $((SECONDS - since)))")
  since=$SECONDS
fi

if wanted tidy; then run_counting tidy 300 /usr/bin/python3 tests/tidy/run.py; fi
if wanted support; then
  run_catch_suites release '^support_test$' ''
  run_pytest support tests/support_test
fi
if wanted unit; then run_catch_suites release '^unit_' ''; fi
for suite in contract faults integration; do
  if wanted "$suite"; then run_catch_suites release "^$suite\$" ''; fi
done
if wanted sql && [ -e tests/sql/run.py ]; then run_counting sql 1800 /usr/bin/python3 tests/sql/run.py; fi
if wanted system && compgen -G 'tests/system/test_*.py' >/dev/null; then
  # These tests wait far more than they compute: three at a time, each with a server of its own.
  run_pytest system -n 3 tests/system
fi
for suite in sim fuzz; do
  if wanted "$suite" && [ -e "tests/$suite/run.sh" ]; then run_counting "$suite" 1800 bash "tests/$suite/run.sh" --short; fi
done

# The sanitizer build doubles the compile time, so the run for everybody takes the unit suites alone, and only while
# the whole has not become long already.
if wanted asan && [ "$asan" != none ]; then
  if [ "$asan" = unit ] && [ $((SECONDS - began)) -gt 2400 ]; then
    summary+=("asan                   left out: the run took more than 40 minutes already (--asan asks for it)")
  else
    say "== build (asan)"
    pattern='^unit_'
    [ "$asan" = unit ] || pattern='^(unit_.*|contract|faults|integration)$'
    targets=()
    for program in build/release/tests/*; do
      name=$(basename "$program")
      if [ -f "$program" ] && [ -x "$program" ] && [[ $name =~ $pattern ]]; then targets+=("$name"); fi
    done
    export ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1
    if [ "${#targets[@]}" -eq 0 ]; then
      :
    elif [ "$build" = no ] || build_preset asan "${targets[@]}"; then
      run_catch_suites asan "$pattern" 'asan '
    else
      tally 'asan build' 0 1
    fi
  fi
fi

if [ "$soak" = yes ]; then run_counting soak $((minutes * 60 + 600)) bash tests/soak.sh --minutes "$minutes"; fi

say ""
printf '%s\n' "${summary[@]}" >&2
say ""
if [ $((passed + failed)) -eq 0 ]; then
  say "Nothing ran."
  failed=1
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
