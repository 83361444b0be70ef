# How tests/check.sh, check_all.sh and check_long.sh run their steps: read by them, not run
# itself. Each step is shown with its time; the whole output goes to $log. The end shows the
# steps by their time, and the ten slowest of what tests/unit.sh ran in any of them.
# shellcheck shell=sh
unset MAKEFLAGS MFLAGS MAKELEVEL
jobs=-j$(nproc)

# begin LOG: before the first step.
begin() {
    log=$1
    mkdir -p build
    : >"$log"
    : >"$log.steps"
    : >"$log.tests"
    : >"$log.counts"
    export STEP_TIMES="$PWD/$log.tests"
    began=$(date +%s%N)
}

# seconds SINCE: as 12.3, since a time in nanoseconds.
seconds() {
    tenths=$((($(date +%s%N) - $1) / 100000000))
    echo "$((tenths / 10)).$((tenths % 10))"
}

# spent_in FILE: tenths of seconds of processor time, from what the shell's `times` wrote.
spent_in() {
    awk -F '[ms ]+' 'NR == 2 { printf "%d\n", ($1 * 60 + $2 + $3 * 60 + $4) * 10 }' "$1"
}

# step NAME COMMAND...: runs it, shows it, adds its closing count (or counts as one). The
# status is whether it passed.
step() {
    export STEP="$1"
    shift
    printf '\n== %s\n' "$STEP"
    step_began=$(date +%s%N)
    step_log=$(mktemp "$log.step.XXXXXX") || exit 2
    times >"$step_log"
    spent=$(spent_in "$step_log")
    "$@" >"$step_log" 2>&1
    code=$?
    # Steps of two streams may end together.
    flock "$log" cat "$step_log" >>"$log"
    # Targets that make runs side by side close one by one.
    counts=$(awk '/^[0-9]+ passed, [0-9]+ failed$/ { p += $1; f += $3; n++ } END { if (n) print p, f }' "$step_log")
    counts=${counts:-$((code == 0)) $((code != 0))}
    # A step that says of no failure and fails has failed all the same.
    [ "$code" -eq 0 ] || [ "${counts#* }" -gt 0 ] || counts="${counts% *} 1"
    if [ "${counts#* }" -gt 0 ]; then
        # The first failure may lie before the last 200 lines.
        grep -A 12 '^not ok' "$step_log" | head -n 100
        tail -n 200 "$step_log"
        echo "FAILED: $STEP (exit $code)"
    else
        grep -E '^(ok  |check-|.*0 lost)' "$step_log"
    fi
    times >"$step_log"
    spent=$(($(spent_in "$step_log") - spent))
    rm -f "$step_log"
    took="$(seconds "$step_began") s, of processors $((spent / 10)).$((spent % 10))"
    echo "${counts% *} passed, ${counts#* } failed, $took s"
    echo "$counts" >>"$log.counts"
    printf '%30s s  %s\n' "$took" "$STEP" >>"$log.steps"
    [ "${counts#* }" -eq 0 ]
}

build() {
    make "$jobs" "$@"
}

# side_by_side TARGET...: those that take one core each, or wait. All run, whichever fails.
side_by_side() {
    make "$jobs" -k --output-sync=target "$@"
}

# streams FIRST SECOND: two functions, each of which runs steps one after the other: while one
# waits, for a disk or for its last test, the other has the processors. The steps of SECOND are
# shown once those of FIRST are done. Targets that both use have to be built before.
streams() {
    # A pipe without data: what a shell runs in the background ignores the keyboard's signals,
    # and so would the tests in it.
    rm -f "$log.ended"
    { "$2"; echo "$2" >>"$log.ended"; } >"$log.second" 2>&1 | { "$1"; echo "$1" >>"$log.ended"; } </dev/null
    cat "$log.second"
    for stream in "$1" "$2"; do
        grep -qx "$stream" "$log.ended" || { echo "FAILED: $stream did not end" && echo '0 1' >>"$log.counts"; }
    done
    rm -f "$log.ended" "$log.second"
}

# The closing lines; the status is whether all passed.
end() {
    printf '\nsteps by their time:\n'
    sort -rn "$log.steps"
    printf '\nthe ten slowest tests:\n'
    sort -rn "$log.tests" | head -n 10
    passed=$(awk '{ n += $1 } END { print n + 0 }' "$log.counts")
    failed=$(awk '{ n += $2 } END { print n + 0 }' "$log.counts")
    printf '\n%d steps, %s s; the whole output is in %s\n' "$(wc -l <"$log.counts")" "$(seconds "$began")" "$log"
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}
