# How tests/check.sh and tests/check_all.sh run their steps: read by both, not run itself.
# Each step is shown with its time; the whole output goes to $log.
# shellcheck shell=sh
unset MAKEFLAGS MFLAGS MAKELEVEL
jobs=-j$(nproc)
passed=0 failed=0 steps=0

# begin LOG: before the first step.
begin() {
    log=$1
    mkdir -p build
    : >"$log"
    began=$(date +%s%N)
}

# seconds SINCE: as 12.3, since a time in nanoseconds.
seconds() {
    tenths=$((($(date +%s%N) - $1) / 100000000))
    echo "$((tenths / 10)).$((tenths % 10))"
}

# step NAME COMMAND...: runs it, shows it, adds its closing count (or counts as one).
step() {
    name=$1
    shift
    printf '\n== %s\n' "$name"
    step_began=$(date +%s%N)
    "$@" >"$log.step" 2>&1
    code=$?
    cat "$log.step" >>"$log"
    counts=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$log.step" | tail -n 1)
    counts=${counts:-$((code == 0)) $((code != 0))}
    # A step that says of no failure and fails has failed all the same.
    [ "$code" -eq 0 ] || [ "${counts#* }" -gt 0 ] || counts="${counts% *} 1"
    steps=$((steps + 1))
    passed=$((passed + ${counts% *}))
    failed=$((failed + ${counts#* }))
    if [ "${counts#* }" -gt 0 ]; then
        # The first failure may lie before the last 200 lines.
        grep -A 12 '^not ok' "$log.step" | head -n 100
        tail -n 200 "$log.step"
        echo "FAILED: $name (exit $code)"
    else
        grep -E '^(ok  |check-|.*0 lost)' "$log.step"
    fi
    rm -f "$log.step"
    echo "${counts% *} passed, ${counts#* } failed, $(seconds "$step_began") s"
}

build() {
    make "$jobs" "$@"
}

# The closing lines; the status is whether all passed.
end() {
    printf '\n%d steps, %s s; the whole output is in %s\n' "$steps" "$(seconds "$began")" "$log"
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}
