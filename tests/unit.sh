#!/bin/sh
# Runs unit test programs, one line each; all of a program's output if it fails.
# The last line counts test functions, and the exit code says whether all passed.
set -u
log=$(mktemp) || exit 2
trap 'rm -f "$log"' EXIT
passed=0 failed=0
for program in "$@"; do
    began=$(date +%s%N)
    "$program" >"$log" 2>&1
    code=$?
    ms=$((($(date +%s%N) - began) / 1000000))
    ok=$(grep -c '^\[ *OK ' "$log")
    bad=$(sed -n 's/^ *\([0-9]*\) FAILED TEST(S)$/\1/p' "$log" | head -n 1)
    bad=${bad:-0}
    # A program that died, or ran nothing, has failed whatever it printed.
    if [ "$code" -ne 0 ] || [ "$ok" -eq 0 ]; then
        [ "$bad" -gt 0 ] || bad=1
        cat "$log"
        printf 'FAILED %-28s exit %d\n' "$(basename "$program")" "$code"
    else
        printf 'ok     %-28s %3d tests %6d ms\n' "$(basename "$program")" "$ok" "$ms"
    fi
    passed=$((passed + ok))
    failed=$((failed + bad))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
