#!/bin/sh
# Each bug of tests/ENGINE/planted is built in a copy of the tree, and check-ENGINE must fail of
# it: engine_bugs.sh ENGINE B [PATTERN], B being the build directory, ENGINE leveldb or rocksdb.
set -u
cd "$(dirname "$0")/.." || exit 2
bugs=tests/$1/planted
tree=$2/planted/$1
unset MAKEFLAGS MFLAGS MAKELEVEL
check() {
    (cd "$tree" && timeout 300 make -s -j"$(nproc)" "$1" KILLS=8 KEYS=120000 >log 2>&1)
}
rm -rf "$tree" && mkdir -p "$tree/build" || exit 2
cp -a Makefile .gitignore README.md SPEC.md LICENSE lib format tools tests fuzz "$tree" || exit 2
cp -a "$2"/lib* "$2"/whole "$2"/format "$2"/tools "$2"/tests "$tree/build" || exit 2
check "check-$1" || { tail "$tree/log"; echo "it fails without a bug"; exit 1; }
caught=0 missed=0
for name in $(perl tests/mutants/planted.pl --list "$bugs" | grep -e "${3:-}"); do
    (cd "$tree" && mkdir before && perl tests/mutants/planted.pl --apply "$bugs" "$name" before) || exit 2
    if check "check-$1"; then
        echo "MISSED $name"
        missed=$((missed + 1))
    elif by=$(grep -oE '^(\[  FAILED  \] [a-z_]+|not ok .*|compare: .*|FAILED .*[^ ])' "$tree/log" | head -n 1) && [ -n "$by" ]; then
        echo "caught $name: $by"
        caught=$((caught + 1))
    else
        tail "$tree/log"
        echo "BROKEN $name"
        missed=$((missed + 1))
    fi
    (cd "$tree" && cp -r before/. . && rm -rf before) || exit 2
done
echo "$caught passed, $missed failed"
[ "$missed" -eq 0 ]
