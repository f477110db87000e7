#!/usr/bin/env bash
# Records Debezium's output once more: starts Kafka Connect, runs ./record against running servers, stops Connect.
# usage: PGURL=postgres://… KAFKA=127.0.0.1:29092 REGISTRY=http://127.0.0.1:28081 record.sh
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
ROOT=$(cd "$HERE/../../.." && pwd)
export CONPORT=${CONPORT:-28083} CHEAP=${CHEAP:--Xms256m -Xmx1g} EOS=${EOS:-disabled} GROUP=dbz-golden-$(date +%s) KPORT=${KAFKA##*:}
trap '"$HERE/../setup-connect.sh" stop' EXIT
nice -n 10 "$HERE/../setup-connect.sh" start
cd "$ROOT"
go run ./integration/env/peer/record -pg "$PGURL" -kafka "$KAFKA" -registry "$REGISTRY" -connect "http://127.0.0.1:$CONPORT" -dir "$ROOT/pipeline/encode/debezium/testdata"
