#!/usr/bin/env bash
# Apache Kafka, one KRaft node (broker and controller), loopback only. Idempotent.
#   setup-kafka.sh fetch|start|stop|status
# env: DIR (${TMPDIR:-/tmp}/tidemark-env/kafka)   KAFKA_VERSION (4.4.0)   KHEAP (-Xms256m -Xmx768m)   KJIT (none)   EXTRA (extra server.properties lines)
#      PORT (29092) plaintext, no authentication: may do everything
#      SASL_PORT (29094) SASL_PLAINTEXT, PLAIN or SCRAM-SHA-256: admin/admin may do everything, norights/norights nothing
#      PROXY_PORT (29095) plaintext; clients are sent on to ADVERTISED_PORT (29096), where the caller's fault proxy listens
#      CPORT (29093) the controller
#      FSIZE (0) largest file the broker may write, MiB; 0 for no limit
# `start` exits 98 when a port was taken.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
DIR=${DIR:-${TMPDIR:-/tmp}/tidemark-env/kafka}
KAFKA_VERSION=${KAFKA_VERSION:-4.4.0}
KHEAP=${KHEAP:--Xms256m -Xmx768m}
KJIT=${KJIT:-} # -XX:TieredStopAtLevel=1 starts in half the time and serves at half the speed
PORT=${PORT:-29092} CPORT=${CPORT:-29093} SASL_PORT=${SASL_PORT:-29094} PROXY_PORT=${PROXY_PORT:-29095} ADVERTISED_PORT=${ADVERTISED_PORT:-29096}
EXTRA=${EXTRA:-}
FSIZE=${FSIZE:-0}
. "$HERE/lib.sh"
LIB=$CACHE/kafka-$KAFKA_VERSION

copy_jars() { mvnq -f "$HERE/broker/pom.xml" -Dkafka.version="$KAFKA_VERSION" org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$1"; }
fetch() { fetched "kafka-$KAFKA_VERSION" copy_jars; }

config() {
  cat >"$DIR/server.properties" <<P
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$CPORT
listeners=PLAINTEXT://127.0.0.1:$PORT,SASL://127.0.0.1:$SASL_PORT,PROXY://127.0.0.1:$PROXY_PORT,CONTROLLER://127.0.0.1:$CPORT
advertised.listeners=PLAINTEXT://127.0.0.1:$PORT,SASL://127.0.0.1:$SASL_PORT,PROXY://127.0.0.1:$ADVERTISED_PORT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXY:PLAINTEXT,SASL:SASL_PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.name.sasl.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="admin" user_norights="norights";
listener.name.sasl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:admin
allow.everyone.if.no.acl.found=false
log.dirs=$DIR/data
num.partitions=1
default.replication.factor=1
min.insync.replicas=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
# An abandoned transaction holds every read_committed reader for this long at most.
transaction.max.timeout.ms=60000
group.initial.rebalance.delay.ms=0
# A topic nobody created is an error a test can see.
auto.create.topics.enable=false
log.cleaner.dedupe.buffer.size=16777216
$EXTRA
P
  cat >"$DIR/log4j2.yaml" <<P
Configuration:
  status: WARN
  Appenders:
    Console: {name: STDOUT, PatternLayout: {pattern: "[%d] %p %m (%c)%n"}}
  Loggers:
    Root: {level: INFO, AppenderRef: {ref: STDOUT}}
P
}

start() {
  alive && { echo "already running pid $(cat "$DIR/pid")"; return 0; }
  fetch; own "$DIR" "$DIR/data"; readable "$LIB"; readable "$DIR"; config
  local java; java=$(java_home 17)/bin/java || die "no Java 17 or newer: run make deps"
  local opts=(-Djava.awt.headless=true -Dlog4j2.configurationFile="$DIR/log4j2.yaml" -cp "$LIB/*")
  if [ ! -f "$DIR/data/meta.properties" ]; then
    local id; id=$(head -c 16 /dev/urandom | base64 | tr '+/' 'xy' | tr -d =)
    "${AS[@]}" "$java" -XX:TieredStopAtLevel=1 "${opts[@]}" kafka.tools.StorageTool format --feature share.version=0 -t "$id" -c "$DIR/server.properties" \
      --add-scram 'SCRAM-SHA-256=[name=admin,password=admin]' --add-scram 'SCRAM-SHA-256=[name=norights,password=norights]' >"$DIR/format.log" 2>&1 || { cat "$DIR/format.log" >&2; exit 1; }
  fi
  cd "$DIR"
  [ "$FSIZE" = 0 ] || ulimit -f $((FSIZE * 1024)) # of the broker below; this script writes nothing large any more
  [ ! -f "$DIR/log" ] || mv -f "$DIR/log" "$DIR/log.before" # how the last one ended
  # shellcheck disable=SC2086
  setsid "${AS[@]}" "$java" $KHEAP $KJIT -XX:+UseG1GC -XX:MaxGCPauseMillis=20 "${opts[@]}" kafka.Kafka "$DIR/server.properties" >"$DIR/log" 2>&1 </dev/null &
  echo $! >"$DIR/pid"
  for _ in $(seq 1 600); do
    grep -q 'Kafka Server started' "$DIR/log" && { echo "Kafka $KAFKA_VERSION up on 127.0.0.1:$PORT pid $(cat "$DIR/pid")"; return 0; }
    lives "$(cat "$DIR/pid")" || died "$DIR/log"
    sleep 0.1
  done
  stop_java >&2; die "Kafka did not come up in 60 s: see $DIR/log"
}
case ${1:-start} in
  start) start;; fetch) fetch;; stop) stop_java;; status) if alive; then echo up; else echo down; fi;;
  *) die "usage: $0 fetch|start|stop|status";;
esac
