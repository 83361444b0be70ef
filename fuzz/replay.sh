#!/bin/sh
# Runs the replay program of each fuzz target over its corpus: replay.sh B MUTATIONS
# TARGET... An input that breaks one is kept in B/fuzz/found/. The last line counts
# corpus files.
set -u
cd "$(dirname "$0")/.." || exit 2
b=$1 mutations=$2
shift 2
log=$(mktemp) || exit 2
trap 'rm -f "$log"' EXIT
passed=0 failed=0
mkdir -p "$b/fuzz/found"
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:allocator_may_return_null=1"
for target in "$@"; do
    began=$(date +%s%N)
    work=$b/fuzz/found/$target.at-work
    FUZZ_AT_WORK=$work "$b/fuzz/replay_$target" --mutations "$mutations" "fuzz/corpus/$target" >"$log" 2>&1
    code=$?
    ms=$((($(date +%s%N) - began) / 1000000))
    n=$(find "fuzz/corpus/$target" -type f | wc -l)
    if [ "$code" -eq 0 ] && grep -q "^$n inputs, " "$log"; then
        printf 'ok     %-28s %s %6d ms\n' "fuzz $target" "$(tail -n 1 "$log")" "$ms"
        passed=$((passed + n))
    else
        tail -n 60 "$log"
        # Its length, then its bytes, as replay.c left them.
        if [ -s "$work" ]; then
            length=$(od -An -tu8 -N8 "$work" | tr -d ' ')
            tail -c +9 "$work" | head -c "$length" >"$b/fuzz/found/$target"
            "$b/fuzz/replay_$target" --shrink "$b/fuzz/found/$target"
            echo "again: FUZZ_STEPS=1 $b/fuzz/replay_$target $b/fuzz/found/$target"
        fi
        printf 'FAILED %-28s exit %d\n' "fuzz $target" "$code"
        failed=$((failed + 1))
    fi
    rm -f "$work"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
