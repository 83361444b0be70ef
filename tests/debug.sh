#!/bin/sh
# Tests the commands of .gdbinit: gdb stops `tamis probe` in a call that has a snapshot and in
# one that has a filter, and says in words what they are. $1 is the build directory.
set -eu
tamis=$(realpath "$1/tamis")
init=$(realpath .gdbinit)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
"$tamis" init store
seq 1000 | "$tamis" build -q store one
seq 20 | "$tamis" build -q store three --rank 2
"$tamis" pack store -q three
seq 70000 | "$tamis" grow -q store two --rank 1 --watermark 7
rm "store/$("$tamis" ls store --json | jq -r '.[0].file')"

# No filter is open where the command looks for its segments; at the end those asked for are.
gdb -nx -batch -x "$init" -ex 'break tamis_snapshot_find' -ex run \
    -ex 'tamis-snapshot snapshot' -ex 'tamis-segment snapshot 1' \
    -ex delete -ex 'break tamis_snapshot_release if snapshot != 0' -ex continue \
    -ex 'tamis-segment snapshot 0' -ex 'tamis-filter snapshot->entries[1]->filter' \
    --args "$tamis" probe store --segment one --segment two 99999 >said 2>&1 || :

passed=0 failed=0
said() {
    if grep -qE "$1" said; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "not ok: gdb does not say: $1"
    fi
}
said '^snapshot [0-9]+ of transaction [0-9]+: 3 segments, 1 packs, its list is complete$'
said '^  segment 0 "one": sealed, rank 0, watermark 0$'
said '^  segments from 64 on: 1 of the 1 columns of a pack$'
said '^segment 1 "two": growing, rank 1, watermark 7$'
said '^  its filter was not used yet$'
said '^  its filter cannot be opened: error [0-9]+$'
said '^filter .*\.tamis of segment "two"$'
said '^  kind Bloom, error wanted 0\.01, 2 stages, may grow, watermark 7$'
said '^  stage 1: [1-4] lanes of [0-9]+ words, [0-9]+ blocks, [0-9]+ of [1-9][0-9]* pages known to be good, checked by floors$'
[ "$failed" -eq 0 ] || cat said
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
