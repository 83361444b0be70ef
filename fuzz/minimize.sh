#!/bin/sh
# Replaces the nameless files of a corpus by the fewest that cover what it and the
# searches cover (edges, not how often): minimize.sh B TARGET... Files with names (seeds
# and regressions) stay. Large inputs are left out: corpora are to be small.
set -u
cd "$(dirname "$0")/.." || exit 2
b=$1
shift
for target in "$@"; do
    corpus=fuzz/corpus/$target merged=$b/fuzz/merged/$target small=$b/fuzz/small/$target
    rm -rf "$merged" "$small"
    mkdir -p "$merged" "$small" "$b/fuzz/work/$target"
    find "$corpus" -type f | grep -vE '/[0-9a-f]{40}$' | xargs -r cp -t "$merged"
    for from in "$corpus" "$b/fuzz/work/$target"; do
        find "$from" -type f -size -17k | grep -E '/[0-9a-f]{40}$' | xargs -r cp -t "$small"
    done
    ASAN_OPTIONS=allocator_may_return_null=1 "$b/fuzz/search_$target" -merge=1 -use_counters=0 -timeout=20 \
        -rss_limit_mb=1024 "$merged" "$small" >"$b/fuzz/$target.merge.log" 2>&1 || {
        tail -n 20 "$b/fuzz/$target.merge.log"
        exit 1
    }
    find "$corpus" -type f | grep -E '/[0-9a-f]{40}$' | xargs -r rm
    find "$merged" -type f | grep -E '/[0-9a-f]{40}$' | xargs -r cp -t "$corpus"
    printf '%-8s %4d inputs, %7d bytes\n' "$target" "$(find "$corpus" -type f | wc -l)" \
        "$(cat "$corpus"/* | wc -c)"
done
