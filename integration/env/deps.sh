#!/usr/bin/env bash
# Installs the Debian packages the tests need and this machine lacks; nothing when all are there. Needs root then.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
mapfile -t P < <("$HERE/check.sh" --packages)
# PostGIS's types are tested where Debian has it for its own PostgreSQL; the rest does without.
[ "$(id -u)" != 0 ] || [ -e /usr/lib/postgresql/15/lib/postgis-3.so ] || P+=(postgresql-15-postgis-3)
[ ${#P[@]} != 0 ] || { echo "all packages are there"; exit 0; }
[ "$(id -u)" = 0 ] || { echo "these Debian packages are missing, install them as root: ${P[*]}" >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive
install() { apt-get install -y -qq --no-install-recommends "${P[@]}"; }
# The lists may be absent or too old for the archive: only then are they fetched.
install || { apt-get update -qq && install; } || {
  P=("${P[@]/postgresql-15-postgis-3/}"); mapfile -t P < <(printf '%s\n' "${P[@]}" | sed '/^$/d')
  echo "PostGIS for PostgreSQL 15 is not to be had here: its types are not tested"
  [ ${#P[@]} = 0 ] || install
}
exec "$HERE/check.sh"
