# How tests/check.sh, check_all.sh and check_long.sh run their steps: read by them, not run
# itself. Each step is shown with its time; the whole output goes to $log. The end shows the
# steps by their time, and the ten slowest of what tests/unit.sh ran in any of them.
# shellcheck shell=sh
unset MAKEFLAGS MFLAGS MAKELEVEL
jobs=-j$(nproc)
passed=0 failed=0 steps=0

# begin LOG: before the first step.
begin() {
    log=$1
    mkdir -p build
    : >"$log"
    : >"$log.steps"
    : >"$log.tests"
    export STEP_TIMES="$PWD/$log.tests"
    began=$(date +%s%N)
}

# seconds SINCE: as 12.3, since a time in nanoseconds.
seconds() {
    tenths=$((($(date +%s%N) - $1) / 100000000))
    echo "$((tenths / 10)).$((tenths % 10))"
}

# step NAME COMMAND...: runs it, shows it, adds its closing count (or counts as one).
step() {
    export STEP="$1"
    shift
    printf '\n== %s\n' "$STEP"
    step_began=$(date +%s%N)
    "$@" >"$log.step" 2>&1
    code=$?
    cat "$log.step" >>"$log"
    # Targets that make runs side by side close one by one.
    counts=$(awk '/^[0-9]+ passed, [0-9]+ failed$/ { p += $1; f += $3; n++ } END { if (n) print p, f }' "$log.step")
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
        echo "FAILED: $STEP (exit $code)"
    else
        grep -E '^(ok  |check-|.*0 lost)' "$log.step"
    fi
    rm -f "$log.step"
    took=$(seconds "$step_began")
    echo "${counts% *} passed, ${counts#* } failed, $took s"
    printf '%8s s  %s\n' "$took" "$STEP" >>"$log.steps"
}

build() {
    make "$jobs" "$@"
}

# side_by_side TARGET...: those that take one core each, or wait. All run, whichever fails.
side_by_side() {
    make "$jobs" -k --output-sync=target "$@"
}

# The closing lines; the status is whether all passed.
end() {
    printf '\nsteps by their time:\n'
    sort -rn "$log.steps"
    printf '\nthe ten slowest tests:\n'
    sort -rn "$log.tests" | head -n 10
    printf '\n%d steps, %s s; the whole output is in %s\n' "$steps" "$(seconds "$began")" "$log"
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}
