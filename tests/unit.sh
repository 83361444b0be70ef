#!/bin/sh
# Runs unit test programs, as many at once as there are cores (JOBS=1: one by one),
# one line each; all of a program's output if it fails. The last line counts test
# functions, and the exit code says whether all passed.
set -u

# run PROGRAM RESULTS: runs one, prints its line, appends "passed failed" to RESULTS.
run() {
    log=$(mktemp) || exit 2
    began=$(date +%s%N)
    "$1" >"$log" 2>&1
    code=$?
    ms=$((($(date +%s%N) - began) / 1000000))
    ok=$(grep -c '^\[ *OK ' "$log")
    bad=$(sed -n 's/^ *\([0-9]*\) FAILED TEST(S)$/\1/p' "$log" | head -n 1)
    bad=${bad:-0}
    # A program that died, or ran nothing, has failed whatever it printed.
    if [ "$code" -ne 0 ] || [ "$ok" -eq 0 ]; then
        [ "$bad" -gt 0 ] || bad=1
        printf 'FAILED %-28s exit %d\n' "$(basename "$1")" "$code" >>"$log"
        cat "$log"
    else
        printf 'ok     %-28s %3d tests %6d ms\n' "$(basename "$1")" "$ok" "$ms"
    fi
    echo "$ok $bad" >>"$2"
    rm -f "$log"
}

if [ "${1:-}" = --one ]; then
    run "$3" "$2"
    exit 0
fi

results=$(mktemp) || exit 2
trap 'rm -f "$results"' EXIT
printf '%s\0' "$@" | xargs -0 -n 1 -P "${JOBS:-$(nproc)}" "$0" --one "$results"
passed=0 failed=0 programs=0
while read -r ok bad; do
    passed=$((passed + ok))
    failed=$((failed + bad))
    programs=$((programs + 1))
done <"$results"
# A program without a result has failed: its runner died.
failed=$((failed + $# - programs))
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
