#!/bin/sh
# Runs the unit tests of format/ and lib/ below the store on other processors, under qemu-user,
# and lets machines of different byte orders take turns at one file. Called by
# `make check-arch`: ARCHES="a b" arch.sh BUILD HOST-EXCHANGE TEST...
set -u
build=$1 host=$2
shift 2
dir=$(mktemp -d "${TMPDIR:-/tmp}/tamis-arch.XXXXXX") || exit 2
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0

count() {
    cat "$dir/log"
    line=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$dir/log" | tail -n 1)
    line=${line:-0 1}
    passed=$((passed + ${line% *}))
    failed=$((failed + ${line#* }))
}

turn() {
    who=$1
    shift
    if "$who" "$@"; then
        passed=$((passed + 1))
    else
        echo "FAILED $who $*"
        failed=$((failed + 1))
    fi
}

for arch in $ARCHES; do
    echo "-- $arch"
    # shellcheck disable=SC2086
    tests/unit.sh $(printf "$build/$arch/tests/%s " "$@") >"$dir/log" 2>&1
    count
done

# Pages of 64 KiB: embedded filters do not begin at a page of the machine there.
echo "-- aarch64, pages of 64 KiB"
QEMU_PAGESIZE=65536 tests/unit.sh "$build/aarch64/tests/test_golden" >"$dir/log" 2>&1
count

echo "-- taking turns"
at=0
for who in "$build/s390x/tests/exchange" "$host" "$build/aarch64/tests/exchange" \
    "$build/s390x/tests/exchange"; do
    turn "$who" grow "$dir/file" "$at" 1500
    at=$((at + 1500))
    turn "$host" check "$dir/file" 0 "$at"
    turn "$build/s390x/tests/exchange" check "$dir/file" 0 "$at"
    turn "$build/aarch64/tests/exchange" check "$dir/file" 0 "$at"
done
turn "$build/s390x/tests/exchange" seal "$dir/file" "$at" 100
turn "$host" check "$dir/file" "$at" 100
turn "$build/aarch64/tests/exchange" check "$dir/file" "$at" 100

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
