#!/bin/sh
# All tests of tools/leveldb on the real LevelDB; $1 is the build directory. The last line
# counts them, and the exit code says whether all passed.
set -u
b=$1
export TAMIS="$b/tamis" OFFLINE="$b/tamis-leveldb" DATABASE="$b/tests/leveldb/database"
BLOCKS=$(realpath "$b/tools/demo/blocks_leveldb") || exit 2
export BLOCKS
log=$(mktemp) || exit 2
trap 'rm -f "$log"' EXIT

tests/unit.sh tests/leveldb/offline.bats tests/demo/blocks.bats "$b"/tests/leveldb/test_policy \
    "$b"/tests/leveldb/test_database "$b"/tests/leveldb/test_table >"$log" 2>&1
grep -v ' passed, .* failed$' "$log"
counts=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$log" | tail -n 1)
passed=${counts% *} failed=${counts#* }

if tests/leveldb/readme.sh "$b"; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
fi
if "$b"/tests/leveldb/compare --check; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
fi
printf '\n%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
