#!/usr/bin/env bash
# What test.sh runs below envctl: the packages' own tests that need servers, then the end-to-end tests.
#   with-servers.sh            all, chaos last
#   with-servers.sh packages   only the packages' own
#   with-servers.sh e2e [ARG]  only ./integration/...; ARGs go to go test
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
what=${1:-all}
shift || true
# Results are never taken from the cache: it does not know the servers, nor the binary that the tests build and drive.
failed=0 # one part's failure does not hide the other's

if [ "$what" != e2e ]; then
  echo "== packages' tests with real servers"
  # The addresses come from the run that TIDEMARK_ENV names; what does not run yet is started.
  eval "$($GO run ./integration/env/cmd/envctl vars -postgres 14,18 -kafka -registry)"
  $GO test -count=1 -timeout 12m ./connectors/postgres/... ./offsets/kafkastore/... ./pipeline/... ./schema/registry/... ./cmd/connectctl/internal/assembly ./cmd/connectctl/internal/dedupview || failed=1
fi
if [ "$what" != e2e ]; then
  integration/with-postgis.sh || failed=1
fi
if [ "$what" != packages ]; then
  echo "== end to end"
  TIDEMARK_TEST_CHAOS='' $GO test -count=1 -timeout 25m -parallel "${TIDEMARK_PARALLEL:-4}" ./integration/... "$@" || failed=1
fi
if [ "$what" = all ]; then
  echo "== chaos, 3 minutes"
  TIDEMARK_TEST_CHAOS=1 $GO test -count=1 -v -timeout 12m -run '^TestChaos$' ./integration/chaos || failed=1
fi
exit "$failed"
