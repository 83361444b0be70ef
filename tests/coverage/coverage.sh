#!/bin/sh
# Lines and branches of format/ and lib/ that the tests reach: each branch that they do
# not, file by file, and a table of the rooms. Fails if the whole has less than table.py
# demands. What is left are mostly checked sums that cannot overflow, races of threads, a
# second failure after a first, and processes that SIGBUS kills, whose counters die too.
# Called by `make coverage`: coverage.sh BUILD, which was built with --coverage.
#
# All tests take part but those of real disks, and of small sizes. Children that end by
# _exit() count too (exit.h), those that are killed do not.
set -u
build=$1
find "$build" -name '*.gcda' -delete

# step NAME COMMAND...: its counts matter here; make check judges whether it passes.
step() {
    name=$1 began=$(date +%s)
    shift
    "$@" >"$build/$name.log" 2>&1 && ok=ok || ok="failed, see $build/$name.log"
    echo "$name: $ok, $(($(date +%s) - began)) s"
}

step rot "$build/tests/rot/rot" --every 600 &
# shellcheck disable=SC2046
step unit tests/unit.sh $(find "$build/tests" -maxdepth 1 -name 'test_*' ! -name '*.*' | sort)
step crash "$build/tests/crash/explore" --states 10000 --seed 1
step kill "$build/tests/kill/kill" --cycles 60 --every 50 --seed 1
step scalar env TAMIS_KERNEL=scalar "$build/tests/test_blocks"
step fuzz fuzz/replay.sh "$build" 12 header record file keys ops store pack list
step faults "$build/tests/faults/faults" --single
wait
chmod -R a+rwX "$build" # other users write here, too
# shellcheck disable=SC2046
step cli env TAMIS="$PWD/$build/tamis" tests/unit.sh $(find tests/cli -name '*.bats' | sort)

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
python3 tests/coverage/table.py "$build/coverage.json"
