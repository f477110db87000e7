#!/usr/bin/env bash
# Java's Kafka clients, Kafka Streams, Avro and Apicurio's serializers as jars in a folder of the cache. Idempotent.
#   setup-java.sh fetch                       fetches what clients/pom.xml names
#   setup-java.sh compile FOLDER SOURCE...    fetches, and compiles the sources into FOLDER
#   setup-java.sh run FOLDER CLASS [ARG...]   runs a class compiled so; heap: JHEAP (-Xmx256m)
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/lib.sh"
JHEAP=${JHEAP:--Xmx256m}
NAME=java-clients-$(sha256sum "$HERE/clients/pom.xml" | cut -c1-12)
LIB=$CACHE/$NAME
# A short run gains nothing from the second compiler.
QUICK=(-XX:TieredStopAtLevel=1 -XX:+UseSerialGC)

copy_jars() { mvnq -f "$HERE/clients/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$1"; }
fetch() { fetched "$NAME" copy_jars; }

what=${1:-fetch}
[ $# = 0 ] || shift
case $what in
  fetch) fetch;;
  compile)
    fetch; home=$(jdk_home 17) || die "no Java compiler of version 17 or newer: run make deps"
    "$home/bin/javac" "${QUICK[@]/#/-J}" -proc:none -Xlint:all,-path,-processing,-classfile -Werror -cp "$LIB/*" -d "$@";;
  run)
    home=$(jdk_home 17) || die "no Java of version 17 or newer: run make deps"
    out=$1; shift
    # shellcheck disable=SC2086
    exec "$home/bin/java" $JHEAP "${QUICK[@]}" -Dorg.slf4j.simpleLogger.defaultLogLevel=error -cp "$out:$LIB/*" "$@";;
  *) die "usage: $0 fetch|compile|run";;
esac
