#!/usr/bin/env bash
# Measures change streams from PostgreSQL to Kafka; see integration/bench and docs/performance.md. Leaves nothing behind, also
# when it is interrupted.
# env: BENCH (stream), one of those `bench -h` names, or all
#      ROWS, PAIRS measured pairs of runs (or rounds), WARM pairs before them, DURATION seconds of measuring: the bench's own where not set
#      TRANSPORT (unix) or tcp   PG (18) major version   PROFILE folder for CPU profiles
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
integration/env/check.sh
DIR=$(mktemp -d "${TMPDIR:-/tmp}/tidemark-bench-XXXXXX")
trap 'rm -rf "$DIR"' EXIT
$GO build -trimpath -o "$DIR/" ./cmd/connectctl ./integration/bench
"$DIR/bench" -connectctl "$DIR/connectctl" -bench "${BENCH:-stream}" -transport "${TRANSPORT:-unix}" -postgres "${PG:-18}" \
  ${ROWS:+-rows "$ROWS"} ${PAIRS:+-pairs "$PAIRS"} ${WARM:+-warm "$WARM"} ${DURATION:+-seconds "$DURATION"} ${PROFILE:+-profile "$PROFILE"} &
BENCH_PID=$!
# A shell that waits for a child in the foreground would not pass a signal on.
trap 'kill -TERM "$BENCH_PID" 2>/dev/null || true' INT TERM HUP
while :; do
  code=0; wait "$BENCH_PID" || code=$?
  kill -0 "$BENCH_PID" 2>/dev/null || exit "$code"
done
