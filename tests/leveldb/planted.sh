#!/bin/sh
# Bugs planted in tools/leveldb, one at a time in a copy of the tree: check-leveldb must
# fail with each of them.
set -u
copy=$(mktemp -d) || exit 2
trap 'rm -rf "$copy"' EXIT
git ls-files -z | xargs -0 cp --parents -t "$copy" || exit 2
cd "$copy" || exit 2
unset MAKEFLAGS MFLAGS MAKELEVEL
caught=0 missed=0
make -j"$(nproc)" check-leveldb >log 2>&1 || { tail log; echo "fails without a bug"; exit 1; }
mkdir before || exit 2
for p in $(perl tests/mutants/planted.pl --list tests/leveldb/planted); do
    perl tests/mutants/planted.pl --apply tests/leveldb/planted "$p" before || exit 2
    if timeout 120 make -j"$(nproc)" check-leveldb >log 2>&1; then
        echo "MISSED $p"
        missed=$((missed + 1))
    elif by=$(grep -oE '^\[  FAILED  \] [a-z_]+|^not ok .*|^compare: .*' log | head -n 1) && [ -n "$by" ]; then
        echo "caught $p: $by"
        caught=$((caught + 1))
    else
        tail log
        echo "BROKEN $p"
        missed=$((missed + 1))
    fi
    cp -r before/. . && rm -rf before && mkdir before || exit 2
done
echo "$caught passed, $missed failed"
[ "$missed" -eq 0 ]
