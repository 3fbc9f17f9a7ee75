# Role: what tests/run.sh and quickstart.sh share: packages of a bare Debian 12, and the build. Sourced by bash, never run.
# shellcheck shell=bash disable=SC2034

# A bare machine has LANG unset and may carry PG* variables of somebody's own server; neither may decide a test.
export LC_ALL=C.UTF-8 LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 DEBIAN_FRONTEND=noninteractive
: "${HOME:=/tmp}"
export HOME
while read -r name; do unset "$name"; done < <(compgen -e | grep -E '^(PG|OUTBOXD_(DATABASE|CONFIG)|NOTIFY_SOCKET|WATCHDOG_)' || true)

BUILD_PACKAGES=(g++ cmake ninja-build ccache pkg-config libpq-dev libboost1.81-dev libboost-url1.81-dev
  libboost-system1.81-dev libssl-dev libsimdjson-dev libyaml-cpp-dev libcli11-dev libspdlog-dev prometheus-cpp-dev
  libsystemd-dev catch2)
RUN_PACKAGES=(postgresql-15 openssl python3 python3-psycopg2)
TEST_PACKAGES=(python3-pytest python3-pytest-xdist pgbouncer faketime systemd)
FUZZ_PACKAGES=(clang libclang-rt-14-dev)

say() { printf '%s\n' "$*" >&2; }

# Prints those of the named packages that are not installed.
missing_packages() {
  local name
  for name in "$@"; do
    dpkg-query -W -f '${db:Status-Abbrev}' "$name" 2>/dev/null | grep -q '^.i' || printf '%s\n' "$name"
  done
}

# Installs what is missing, and touches nothing when nothing is: neither the package lists nor the network.
install_packages() {
  local missing=() as_root=() options=(-y --no-install-recommends -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3
    -o Dpkg::Options::=--force-confold -o Dpkg::Use-Pty=0 -qq)
  mapfile -t missing < <(missing_packages "$@")
  [ "${#missing[@]}" -gt 0 ] || return 0
  if ! command -v apt-get >/dev/null; then
    say "This machine has no apt-get. Needed and not found: ${missing[*]}"
    return 1
  fi
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      say "Neither root nor sudo. Ask an administrator for: apt-get install ${missing[*]}"
      return 1
    fi
    as_root=(sudo env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8)
  fi
  say "Installing: ${missing[*]}"
  # Our servers are private ones: Debian need not make and start a cluster of its own on port 5432.
  if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
    "${as_root[@]}" mkdir -p /etc/postgresql-common
    echo 'create_main_cluster = false' | "${as_root[@]}" tee /etc/postgresql-common/createcluster.conf >/dev/null
  fi
  "${as_root[@]}" apt-get update -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 >&2 || say "apt-get update failed; trying with the lists that are here"
  "${as_root[@]}" apt-get install "${options[@]}" "${missing[@]}" >&2
}

# How many compilers at once: a file with Beast and TLS takes more than a gigabyte.
build_jobs() {
  local cores memory_kb by_memory
  cores=$(nproc)
  memory_kb=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
  by_memory=$((memory_kb / 1500000))
  [ "$by_memory" -ge 1 ] || by_memory=1
  echo $((cores < by_memory ? cores : by_memory))
}

# build_preset PRESET [TARGET...]: configures when needed and builds below build/PRESET. One at a time per checkout.
build_preset() {
  local preset=$1
  shift
  mkdir -p build
  (
    flock 9
    # A tree that was copied or moved holds a cache of another place, which cmake refuses: start that one afresh.
    if ! cmake --preset "$preset" >"build/$preset-configure.log" 2>&1; then
      rm -rf "build/$preset"
      if ! cmake --preset "$preset" >"build/$preset-configure.log" 2>&1; then
        cat "build/$preset-configure.log" >&2
        exit 1
      fi
    fi
    local targets=()
    [ $# -eq 0 ] || targets=(--target "$@")
    # Goes on after an error, so that one suite that does not compile does not hide what the others say.
    cmake --build "build/$preset" -j "$(build_jobs)" "${targets[@]}" -- -k 0 >&2
  ) 9>build/.lock
}
