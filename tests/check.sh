#!/bin/sh
# All tests: the plain build with gcc, the same with clang, again under ASan and
# UBSan, the threaded ones under TSan. Called by `make check`.
set -u
cd "$(dirname "$0")/.." || exit 2
unset MAKEFLAGS MFLAGS MAKELEVEL
jobs=-j$(nproc)
log=build/check.log
mkdir -p build
: >"$log"
passed=0 failed=0
began=$(date +%s)

# step NAME COMMAND...: runs it, shows it, adds its closing count (or counts as one).
step() {
    name=$1
    shift
    printf '\n== %s\n' "$name"
    "$@" >"$log.step" 2>&1
    code=$?
    cat "$log.step" >>"$log"
    plan=""
    counts=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$log.step" | tail -n 1)
    if [ -n "$counts" ]; then
        passed=$((passed + ${counts% *}))
        failed=$((failed + ${counts#* }))
        [ "$code" -eq 0 ] || [ "${counts#* }" -gt 0 ] || failed=$((failed + 1))
    elif bats_counts "$log.step"; then
        :
    elif [ "$code" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
    if [ "$code" -ne 0 ]; then
        # What comes first may be long past, when the last 200 lines begin.
        grep -A 12 '^not ok' "$log.step" | head -n 100
        tail -n 200 "$log.step"
        echo "FAILED: $name (exit $code)"
    else
        grep -E '^(ok  |check-|[0-9]+ passed|.*0 lost)' "$log.step" ||
            { [ -z "${plan:-}" ] || echo "$ok passed, $((plan - ok)) failed"; }
    fi
    rm -f "$log.step"
}

# TAP: 1..N, then a line "ok" or "not ok" a test.
bats_counts() {
    plan=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$1" | tail -n 1)
    [ -n "$plan" ] || return 1
    ok=$(grep -c '^ok [0-9]' "$1")
    skipped=$(grep -c '^ok [0-9].*# skip' "$1")
    [ "$skipped" -eq 0 ] || echo "skipped $skipped: a skipped check is a failed one"
    passed=$((passed + ok - skipped))
    failed=$((failed + plan - ok + skipped))
    [ "$plan" -gt 0 ] && return 0
    return 1
}

asan='-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer'
tsan='-fsanitize=thread'

build() {
    make $jobs "$@"
}

step "build with gcc, warnings are errors" build WERROR=-Werror all tests
step "check-layers" make check-layers
step "check-symbols" make check-symbols
step "check-calls" make check-calls
step "unit tests" make unit
step "unit tests, AVX2 kernel" make unit-kernel KERNEL=avx2
step "unit tests, scalar kernel" make unit-kernel KERNEL=scalar
step "fuzz corpora" make fuzz-replay
step "power cuts" make crash
step "kill -9" make kill
step "rot" make rot
step "every call fails" make faults
step "command line" make cli
step "check-docs" make check-docs
step "installed, packaged" make check-install
step "examples" make check-examples
step "benchmark, the smallest form" make check-bench
step "the paper" make check-paper
step "build with clang, warnings are errors" \
    build B=build/clang CC=clang WERROR=-Werror OPT=-O1 all tests
step "unit tests, clang" make B=build/clang CC=clang OPT=-O1 unit
step "build with ASan and UBSan" \
    build B=build/asan OPT='-O1 -g' SANITIZE="$asan" WERROR=-Werror all tests
step "unit tests, ASan and UBSan" make B=build/asan OPT='-O1 -g' SANITIZE="$asan" unit
step "fuzz corpora, ASan and UBSan" make B=build/asan OPT='-O1 -g' SANITIZE="$asan" MUTATIONS=4 fuzz-replay
step "every call fails, ASan and UBSan" \
    make B=build/asan OPT='-O1 -g' SANITIZE="$asan" faults-brief
step "command line, ASan and UBSan" make B=build/asan OPT='-O1 -g' SANITIZE="$asan" cli
step "threaded tests, TSan" \
    build B=build/tsan OPT='-O1 -g' SANITIZE="$tsan" unit-threads

printf '\n%d s; the whole output is in %s\n' $(($(date +%s) - began)) "$log"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
