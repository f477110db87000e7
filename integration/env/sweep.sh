#!/usr/bin/env bash
# Stops the servers of one run and removes its folder:  sweep.sh [--at-eof] RUN
# --at-eof waits for the end of stdin first: the run's owner holds the other end, so however it ends, its servers end too.
set -uo pipefail
# A builtin reads, not a child: a child would hold the run's lock, which we inherit, a while longer than we live.
[ "${1:-}" = --at-eof ] && { shift; while read -r _; do :; done; }
RUN=${1:?}
[ -e "$RUN/env.json" ] || { echo "$RUN is not the folder of a run" >&2; exit 1; }

ours() { tr '\0' '\n' <"/proc/$1/cmdline" 2>/dev/null | grep -qF -- "$RUN/"; } # not another process that got the number
first() { head -n 1 "$1" 2>/dev/null || true; }
starting() { # scripts that are still bringing a server up
  local p
  for p in /proc/[0-9]*; do
    tr '\0' '\n' <"$p/cmdline" 2>/dev/null | sed -n 2p | grep -qF -- "$RUN/scripts/setup-" && echo "${p#/proc/}"
  done
}
pids() { # pids FILE: of the servers that run
  local f p
  for f in "$RUN"/*/"$1"; do p=$(first "$f"); [ -n "$p" ] && ours "$p" && echo "$p"; done
}
signal() { local s=$1; shift; [ $# = 0 ] || kill "-$s" "$@" 2>/dev/null || true; }

# shellcheck disable=SC2046
{
  signal KILL $(starting)
  for i in $(seq 1 200); do
    pg=$(pids data/postmaster.pid) java=$(pids pid)
    [ -n "$pg$java" ] || break
    signal KILL $java                                      # nothing they hold is needed
    if [ "$i" -lt 150 ]; then signal QUIT $pg; else signal KILL $pg; fi # QUIT: PostgreSQL's immediate shutdown, takes its children along
    sleep 0.05
  done
}
[ -z "$(pids data/postmaster.pid)$(pids pid)" ] || { echo "servers of $RUN still run" >&2; exit 1; }
rm -rf "$RUN"
