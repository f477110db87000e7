#!/usr/bin/env bash
# Runs the tests: unit with the race detector, the demo, then everything that needs real servers, which are started once.
#   test.sh              everything
#   test.sh integration  only what needs servers
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
if [ "${1:-all}" = all ]; then
  echo "== unit, race, fuzz seeds"
  $GO test -race -short -timeout 8m $($GO list ./... | grep -v /integration)
  echo "== the demo, run, killed and without network"
  # One package at a time: they share the cache of fetched servers, and look for what a run left there.
  TIDEMARK_TEST_DEMO=1 $GO test -count=1 -p 1 -timeout 6m ./cmd/connectctl ./cmd/connectctl/internal/demo/...
fi
echo "== integration, real servers"
exec $GO run ./integration/env/cmd/envctl run -- integration/with-servers.sh
