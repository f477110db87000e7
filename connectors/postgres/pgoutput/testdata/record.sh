#!/bin/sh
# Records recorded.hex and binary.hex: one message per line, as pgoutput wrote
# it. Usage, as root or any user: testdata/record.sh [directory of PostgreSQL's binaries]
# Afterwards: go test -run TestRecorded -update .
set -eu
bin=${1:-/usr/lib/postgresql/15/bin}
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
as=
if [ "$(id -u)" = 0 ]; then # the server refuses to run as root
	as="setpriv --reuid=nobody --regid=nogroup --clear-groups"
	chown nobody "$dir"
fi
trap '$as "$bin/pg_ctl" -D "$dir/data" -m immediate stop >/dev/null 2>&1 || true; rm -rf "$dir"' EXIT
cd "$dir"
$as "$bin/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --locale=C >/dev/null
$as "$bin/pg_ctl" -D "$dir/data" -l "$dir/data/log" -w start \
	-o "-c wal_level=logical -c listen_addresses= -c unix_socket_directories=$dir -c fsync=off -c timezone=UTC -c autovacuum=off" >/dev/null
sql() { "$bin/psql" -h "$dir" -U postgres -d postgres -X -q -A -t -v ON_ERROR_STOP=1 "$@"; }
sql -f - <"$here/record.sql" >/dev/null
read_slot() {
	sql -c "SELECT encode(data, 'hex') FROM pg_logical_slot_get_binary_changes('$1', NULL, NULL,
		'proto_version', '1', 'publication_names', 'p', 'messages', 'true', 'binary', '$2')"
}
read_slot text false >"$here/recorded.hex"
read_slot binary true >"$here/binary.hex"
