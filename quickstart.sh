#!/bin/bash
# Role: from a bare Debian 12 to outboxd at work: packages, build, then a demonstration on a PostgreSQL, a receiver and a
# relay of its own. Everything that the demonstration starts it stops and removes again, unless --keep is given.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"
# shellcheck source=tests/support/prepare.sh
. tests/support/prepare.sh

case " $* " in
  *" -h "* | *" --help "*)
    cat <<'TEXT'
Usage: ./quickstart.sh [--keep] [--orders N]      shows outboxd at work, in a few seconds once it is built
       ./quickstart.sh --stop                     ends and removes what --keep left running
TEXT
    exit 0
    ;;
esac

export PYTHONPATH=tests/support
case " $* " in
  *" --stop "*) exec /usr/bin/python3 -m outboxtest.demonstration --stop ;;
esac

binary=build/release/daemon/outboxd
install_packages "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}"
# Nothing newer than the binary: nothing to build.
if [ ! -x "$binary" ] || [ -n "$(find CMakeLists.txt CMakePresets.json lib daemon migrations config -newer "$binary" -type f -print -quit)" ]; then
  say "Building outboxd (some minutes the first time)"
  build_preset release outboxd
fi
exec /usr/bin/python3 -m outboxtest.demonstration "$@"
