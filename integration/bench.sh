#!/usr/bin/env bash
# Measures the stream from PostgreSQL to Kafka beside pg_recvlogical; see integration/bench. Leaves nothing behind.
# env: ROWS (1000000)   PAIRS (3) measured pairs of runs   WARM (3) pairs before them   PG (18) major version   PROFILE folder for CPU profiles
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
integration/env/check.sh
DIR=$(mktemp -d "${TMPDIR:-/tmp}/tidemark-bench-XXXXXX")
trap 'rm -rf "$DIR"' EXIT
$GO build -trimpath -o "$DIR/" ./cmd/connectctl ./integration/bench
"$DIR/bench" -connectctl "$DIR/connectctl" -rows "${ROWS:-1000000}" -pairs "${PAIRS:-3}" -warm "${WARM:-3}" -postgres "${PG:-18}" ${PROFILE:+-profile "$PROFILE"}
