#!/bin/sh
# Lets libFuzzer search: search.sh B SECONDS TARGET... New inputs gather in
# B/fuzz/work/TARGET, ones that break something in B/fuzz/found/. Ends with what was
# run and covered, and with failure if anything was found.
set -u
cd "$(dirname "$0")/.." || exit 2
b=$1 seconds=$2
shift 2
found=0
mkdir -p "$b/fuzz/found"
for target in "$@"; do
    work=$b/fuzz/work/$target log=$b/fuzz/$target.log
    mkdir -p "$work"
    case $target in
    header) max=12292 ;;
    list) max=4097 ;;
    record) max=2816 ;;
    file) max=73728 ;;
    pack) max=256 ;;
    ops | keys) max=512 ;;
    store) max=8192 ;;
    esac
    if ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1 \
        "$b/fuzz/search_$target" -max_total_time="$seconds" -max_len="$max" -timeout=20 \
        -rss_limit_mb=1024 -malloc_limit_mb=512 -print_final_stats=1 -use_value_profile=0 \
        -artifact_prefix="$b/fuzz/found/$target-" "$work" "fuzz/corpus/$target" >"$log" 2>&1; then
        verdict=ok
    else
        verdict=FOUND found=$((found + 1))
        grep -vE '^#|NEW_FUNC' "$log" | tail -n 60
    fi
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    printf '%-6s %-8s %10s executions, %6s edges covered, %s s\n' "$verdict" "$target" \
        "${executions:-?}" "${edges:-?}" "$seconds"
done
[ "$found" -eq 0 ]
