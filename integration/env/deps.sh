#!/usr/bin/env bash
# Installs the Debian packages the tests need and this machine lacks; nothing when all are there. Needs root then.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
mapfile -t P < <("$HERE/check.sh" --packages)
[ ${#P[@]} != 0 ] || { echo "all packages are there"; exit 0; }
[ "$(id -u)" = 0 ] || { echo "these Debian packages are missing, install them as root: ${P[*]}" >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive
install() { apt-get install -y -qq --no-install-recommends "${P[@]}"; }
# The lists may be absent or too old for the archive: only then are they fetched.
install || { apt-get update -qq && install; }
exec "$HERE/check.sh"
