#!/bin/sh
# Runs unit test programs and files of bats, as many at once as there are cores (JOBS=1: one
# by one), one line each; all of its output if one fails. The last line counts tests, and
# the exit code says whether all passed. A test that bats skipped has failed, and so has a
# program that runs for half an hour: it waits for what never comes.
set -u

# counts LOG: "passed failed", from what cmocka or bats (TAP: 1..N, then a line a test) wrote.
counts() {
    planned=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$1" | tail -n 1)
    if [ -n "$planned" ]; then
        ok=$(grep '^ok [0-9]' "$1" | grep -vc '# skip')
        echo "$ok $((planned - ok))"
    else
        bad=$(sed -n 's/^ *\([0-9]*\) FAILED TEST(S)$/\1/p' "$1" | head -n 1)
        echo "$(grep -c '^\[ *OK ' "$1") ${bad:-0}"
    fi
}

# run PROGRAM RESULTS: runs one, prints its line, appends "passed failed" to RESULTS.
run() {
    log=$(mktemp) || exit 2
    began=$(date +%s%N)
    case $1 in
    *.bats) timeout -k 10 1800 bats --tap --print-output-on-failure "$1" >"$log" 2>&1 ;;
    *) timeout -k 10 1800 "$1" >"$log" 2>&1 ;;
    esac
    code=$?
    ms=$((($(date +%s%N) - began) / 1000000))
    both=$(counts "$log")
    ok=${both% *} bad=${both#* }
    # A program that died, or ran nothing, has failed whatever it printed.
    if [ "$code" -ne 0 ] || [ "$ok" -eq 0 ] || [ "$bad" -gt 0 ]; then
        [ "$bad" -gt 0 ] || bad=1
        printf 'FAILED %-28s exit %d\n' "$(basename "$1")" "$code" >>"$log"
        cat "$log"
    else
        printf 'ok     %-28s %3d tests %6d ms\n' "$(basename "$1")" "$ok" "$ms"
    fi
    echo "$ok $bad" >>"$2"
    # For the end of tests/steps.sh.
    [ -z "${STEP_TIMES:-}" ] ||
        printf '%8d ms  %s, in "%s"\n' "$ms" "$(basename "$1")" "$STEP" >>"$STEP_TIMES"
    rm -f "$log"
}

if [ "${1:-}" = --one ]; then
    run "$3" "$2"
    exit 0
fi

results=$(mktemp) || exit 2
# On ext4 a new file takes the longer the more were removed near it in the last seconds:
# half of the time of many tests. So directories in here are spread over the disk.
# Debian 13 has a tmpfs at /tmp, where tests of what a disk does fail.
disk=${TMPDIR:-/tmp}
[ "$(stat -f -c %T "$disk")" != tmpfs ] || disk=/var/tmp
TMPDIR=$(mktemp -d -p "$disk") || exit 2
export TMPDIR
chmod 1777 "$TMPDIR" # as /tmp: some tests become another user
chattr +T "$TMPDIR" 2>/dev/null || :
trap 'rm -rf "$results" "$TMPDIR"' EXIT
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
