#!/bin/sh
# Branch coverage of format/ and lib/ below the store by the tests: a table, one line a
# file, and a failure if a file that must reach 95% does not, or if unreached.md does not
# say why a function has a branch that is not reached. A second table has the lines and
# branches of each room, those of the store among them. Called by `make coverage`:
# coverage.sh BUILD, which was built with --coverage.
#
# All tests that run the library take part, but for those of the devices and of power cuts
# on real file systems; those that have a size are run with a small one. Counters of
# children that end by _exit() count too (exit.h); those of children that are killed are
# lost.
set -u
build=$1
find "$build" -name '*.gcda' -delete

# step NAME COMMAND...: quiet, unless it fails.
step() {
    name=$1
    shift
    began=$(date +%s)
    if ! "$@" >"$build/$name.log" 2>&1; then
        tail -n 100 "$build/$name.log"
        echo "FAILED: $name"
        exit 1
    fi
    echo "ok     $name, $(($(date +%s) - began)) s"
}

# One core each: this one and the first of the unit tests are the longest.
(step rot "$build/tests/rot/rot" --every 600) &
rot=$!
slow="$build/tests/test_sealed_damage $build/tests/test_error_rates"
tests=$(find "$build/tests" -maxdepth 1 -name 'test_*' ! -name '*.*' \
    ! -name test_sealed_damage ! -name test_error_rates | sort)
# shellcheck disable=SC2086
step unit tests/unit.sh $slow $tests
step crash "$build/tests/crash/explore" --states 3000 --seed 1
step kill "$build/tests/kill/kill" --cycles 60 --every 50 --seed 1
step fuzz fuzz/replay.sh "$build" 2 header record file keys ops store pack list
step faults "$build/tests/faults/faults"
# Other users write here, too. Limits of a process stop what counts: make check tells of tests
# that fail, not this.
chmod -R a+rwX "$build"
# shellcheck disable=SC2046
TAMIS="$PWD/$build/tamis" tests/unit.sh $(find tests/cli -name '*.bats' | sort) >"$build/cli.log" 2>&1
wait "$rot" || exit 1

# Kernels of other processors cannot be run here.
grep -qw avx512bw /proc/cpuinfo && other=none || other='.*/avx512\.c'
gcovr --root . --object-directory "$build" --filter 'format/' --filter 'lib/' --exclude "$other" \
    --json "$build/coverage.json" --html-details "$build/coverage.html" \
    --gcov-ignore-parse-errors "$build" >"$build/gcovr.log" 2>&1 || {
    cat "$build/gcovr.log"
    exit 1
}
# gcovr leaves out what gcov cannot read, and says so in its log only.
if grep -q 'GCOV produced the following errors' "$build/gcovr.log"; then
    echo "FAILED: sources have changed or moved since $build was made; remove it: $build/gcovr.log"
    exit 1
fi
python3 tests/coverage/table.py "$build/coverage.json" tests/coverage/unreached.md
