#!/usr/bin/env bash
# A Kafka Connect worker with Debezium's connectors and an Avro converter for the registry, loopback only: a peer to compare with. Idempotent.
#   setup-connect.sh fetch|start|stop|status
# env: DIR (${TMPDIR:-/tmp}/tidemark-env/connect)   CONNECT_VERSION (4.3.1)   DBZ_VERSION (3.6.1.Final)   CONVERTER_VERSION (2.6.13.Final)
#      CONPORT (28083) its REST API   KPORT (29092) the broker's   GROUP (connect-peer)   EOS (enabled) or disabled   CHEAP (-Xms512m -Xmx2g)
# `start` exits 98 when a port was taken.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
DIR=${DIR:-${TMPDIR:-/tmp}/tidemark-env/connect}
CONNECT_VERSION=${CONNECT_VERSION:-4.3.1} # on 4.4.0 tasks of Debezium 3.6.1 die: NoClassDefFoundError org.apache.kafka.common.utils.Sanitizer
DBZ_VERSION=${DBZ_VERSION:-3.6.1.Final}
CONVERTER_VERSION=${CONVERTER_VERSION:-2.6.13.Final}
CONPORT=${CONPORT:-28083} KPORT=${KPORT:-29092} GROUP=${GROUP:-connect-peer} EOS=${EOS:-enabled}
CHEAP=${CHEAP:--Xms512m -Xmx2g}
. "$HERE/lib.sh"
LIB=$CACHE/connect-$CONNECT_VERSION
PLUGINS=$CACHE/connect-plugins-$DBZ_VERSION-$CONVERTER_VERSION

jars() { # jars POM FOLDER OPTION...
  local pom=$1 to=$2; shift 2
  mvnq -f "$HERE/peer/$pom/pom.xml" "$@" org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$to"
}
copy_worker() { jars connect "$1" -Dkafka.version="$CONNECT_VERSION"; }
copy_plugins() {
  # What the worker has itself, a plugin must not bring.
  local provided=-DexcludeGroupIds=org.apache.kafka,org.slf4j,com.github.luben,org.xerial.snappy,at.yawk.lz4,org.lz4
  jars dbz-postgres "$1/debezium-postgres" -Ddebezium.version="$DBZ_VERSION" $provided
  jars dbz-mysql "$1/debezium-mysql" -Ddebezium.version="$DBZ_VERSION" $provided
  jars apicurio-converter "$1/apicurio-converter" -Dapicurio.version="$CONVERTER_VERSION" $provided
}
fetch() { fetched "${LIB##*/}" copy_worker; fetched "${PLUGINS##*/}" copy_plugins; }

config() {
  cat >"$DIR/worker.properties" <<P
bootstrap.servers=127.0.0.1:$KPORT
listeners=http://127.0.0.1:$CONPORT
rest.advertised.host.name=127.0.0.1
plugin.path=$PLUGINS
plugin.discovery=hybrid_warn
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=false
value.converter.schemas.enable=false
offset.flush.interval.ms=5000
group.id=$GROUP
exactly.once.source.support=$EOS
config.storage.topic=$GROUP-configs
offset.storage.topic=$GROUP-offsets
status.storage.topic=$GROUP-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
offset.storage.partitions=4
status.storage.replication.factor=1
status.storage.partitions=2
scheduled.rebalance.max.delay.ms=0
P
  cat >"$DIR/log4j2.xml" <<P
<Configuration status="WARN"><Appenders><Console name="S"><PatternLayout pattern="[%d] %p %X{connector.context}%m (%c:%L)%n"/></Console></Appenders>
<Loggers><Root level="INFO"><AppenderRef ref="S"/></Root><Logger name="org.reflections" level="ERROR"/></Loggers></Configuration>
P
}

start() {
  alive && { echo "already running pid $(cat "$DIR/pid")"; return 0; }
  fetch; own "$DIR"; readable "$LIB"; readable "$PLUGINS"; readable "$DIR"; config
  local java; java=$(java_home 17)/bin/java || die "no Java 17 or newer: run make deps"
  cd "$DIR"
  # shellcheck disable=SC2086
  setsid "${AS[@]}" "$java" $CHEAP -XX:+UseG1GC -Djava.awt.headless=true -Djava.io.tmpdir="$DIR" -Dlog4j2.configurationFile="$DIR/log4j2.xml" \
    -cp "$LIB/*" org.apache.kafka.connect.cli.ConnectDistributed "$DIR/worker.properties" >"$DIR/log" 2>&1 </dev/null &
  echo $! >"$DIR/pid"
  for _ in $(seq 1 900); do
    # /connectors, not /: it answers only once the worker has joined its group.
    curl -fsS -m 5 -o /dev/null "http://127.0.0.1:$CONPORT/connectors" 2>/dev/null && { echo "Kafka Connect $CONNECT_VERSION up on 127.0.0.1:$CONPORT pid $(cat "$DIR/pid")"; return 0; }
    lives "$(cat "$DIR/pid")" || died "$DIR/log"
    sleep 0.1
  done
  stop_java >&2; die "Kafka Connect did not come up in 90 s: see $DIR/log"
}
case ${1:-start} in
  start) start;; fetch) fetch;; stop) stop_java;; status) if alive; then echo up; else echo down; fi;;
  *) die "usage: $0 fetch|start|stop|status";;
esac
