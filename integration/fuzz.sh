#!/usr/bin/env bash
# Runs every fuzz target, one after another, each for FUZZTIME (default 5m), and prints a line for each and the total.
#   fuzz.sh [PATTERN]   only targets whose package/name matches the extended regular expression
# env: FUZZTIME   FUZZPARALLEL  workers (default: the processors)
# An input that fails is kept in the package's testdata/fuzz, where `go test` runs it from then on; exit code 1 then.
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go} FUZZTIME=${FUZZTIME:-5m} PATTERN=${1:-.}
workers=()
[ -z "${FUZZPARALLEL:-}" ] || workers=(-parallel "$FUZZPARALLEL")
log=$(mktemp)
trap 'rm -f "$log"' EXIT
targets=0 failed=0 execs=0 began=$SECONDS
for dir in $(grep -rlE --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do
  names=$($GO test -list '^Fuzz' "$dir")
  for name in $(grep '^Fuzz' <<<"$names"); do
    [[ ${dir#./}/$name =~ $PATTERN ]] || continue
    targets=$((targets + 1)) from=$SECONDS result=ok
    # Making each new input small takes up to a minute by itself; that time is better spent on new ones.
    $GO test -run '^$' -fuzzminimizetime 2s -fuzz "^$name\$" -fuzztime "$FUZZTIME" ${workers[@]+"${workers[@]}"} "$dir" >"$log" 2>&1 || result=FAIL
    # Go itself may call a target failed whose time was up in the middle of a run (golang/go#48591): no input is kept then.
    if [ $result = FAIL ] && grep -qx '    context deadline exceeded' "$log" && ! grep -q 'Failing input' "$log"; then result=ok; fi
    line=$(grep -E '^fuzz: elapsed: .*execs: ' "$log" | tail -n 1 || true)
    n=$(sed -nE 's/.*execs: ([0-9]+).*/\1/p' <<<"$line")
    inputs=$(sed -nE 's/.*new interesting: ([0-9]+) \(total: ([0-9]+)\).*/\2 inputs, \1 of them new/p' <<<"$line")
    execs=$((execs + ${n:-0}))
    printf '%-4s %-60s %4ds %12s runs  %s\n' "$result" "${dir#./}.$name" $((SECONDS - from)) "${n:-0}" "$inputs"
    [ "$result" = ok ] || { failed=$((failed + 1)); grep -v '^fuzz: elapsed' "$log" | head -n 40; }
  done
done
echo "fuzz: $targets targets, $failed failed, $execs runs in $((SECONDS - began)) s"
[ "$failed" = 0 ] && [ "$targets" -gt 0 ]
