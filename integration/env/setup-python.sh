#!/usr/bin/env bash
# Python's Kafka and Avro clients and DuckDB, in a folder of the cache. Idempotent.
#   setup-python.sh fetch   fetches what clients/requirements.txt pins, for this machine's python3
#   setup-python.sh path    fetches, and prints the folder to name in PYTHONPATH
# PyPI's wheels only: nothing is compiled, nothing is installed outside the cache.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/lib.sh"
LIST=$HERE/clients/requirements.txt

install() { python3 -m pip install -q --no-cache-dir --disable-pip-version-check --root-user-action=ignore --no-deps --only-binary :all: --target "$1" -r "$LIST"; }
fetch() { fetched "$(python_clients)" install; }

case ${1:-fetch} in
  fetch) fetch;; path) fetch; echo "$CACHE/$(python_clients)";;
  *) die "usage: $0 fetch|path";;
esac
