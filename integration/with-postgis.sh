#!/usr/bin/env bash
# Compares table read and stream for every type once more on Debian's PostgreSQL 15, which can have PostGIS.
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
if [ ! -e /usr/lib/postgresql/15/lib/postgis-3.so ] || [ "$(id -u)" != 0 ]; then
  echo "== PostGIS for Debian's PostgreSQL 15 is not here: geometry and geography are not tested"
  exit 0
fi
echo "== PostGIS"
DIR=$(mktemp -d)
chmod 755 "$DIR"
export DIR VERSION=15 PGROOT=/usr/lib/postgresql/15
trap 'integration/env/setup-postgres.sh stop >/dev/null || true; rm -rf "$DIR"' EXIT
for _ in 1 2 3; do
  PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  export PORT
  if integration/env/setup-postgres.sh start; then break; fi # taken meanwhile: another one
done
TIDEMARK_TEST_POSTGIS=1 TIDEMARK_TEST_PG_URLS="postgres://postgres:postgres@127.0.0.1:$PORT/postgres" $GO test -count=1 -timeout 3m -run TheSameFromTableAndStream ./connectors/postgres
