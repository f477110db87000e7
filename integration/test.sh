#!/usr/bin/env bash
# Runs the tests: unit with the race detector, then everything that needs real servers, which are started once.
#   test.sh              everything
#   test.sh integration  only what needs servers
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
if [ "${1:-all}" = all ]; then
  echo "== unit, race, fuzz seeds"
  $GO test -race -short -timeout 8m $($GO list ./... | grep -v /integration)
fi
echo "== integration, real servers"
exec $GO run ./integration/env/cmd/envctl run -- integration/with-servers.sh
