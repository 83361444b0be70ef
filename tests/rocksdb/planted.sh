#!/bin/sh
# Each bug of planted/ is built in a copy of the tree, and the tests must fail of it.
# $1: the build directory; $2: a pattern of names, or none.
set -u
cd "$(dirname "$0")/../.." || exit 2
tree=$1/planted/tree
log=$1/planted/log
rm -rf "$tree" && mkdir -p "$tree" || exit 2
cp -a Makefile lib format tools tests fuzz "$tree" || exit 2
mkdir -p "$tree/build" && cp -a "$1"/lib* "$1"/format "$1"/tools "$1"/tests "$tree/build" || exit 2
caught=0 missed=0
for name in $(perl tests/mutants/planted.pl --list tests/rocksdb/planted | grep -e "${2:-}"); do
    mkdir "$tree/before" || exit 2
    (cd "$tree" && perl tests/mutants/planted.pl --apply tests/rocksdb/planted "$name" before &&
        make -s build/tests/rocksdb/rocksdb rocksdb) \
        >"$log" 2>&1 || { cat "$log"; echo "planted: $name does not build" >&2; exit 2; }
    if (cd "$tree" && build/tests/rocksdb/rocksdb --tool build/tamis-rocksdb --kills 8 \
        --keys 120000) >"$log" 2>&1; then
        echo "missed  $name"
        missed=$((missed + 1))
    else
        printf 'caught  %-36s %s\n' "$name" "$(sed -n 's/^FAILED *\(.*[^ ]\)  *[0-9.]* s$/\1;/p' "$log" | tr '\n' ' ')"
        caught=$((caught + 1))
    fi
    (cd "$tree" && cp -r before/. . && rm -rf before) || exit 2
done
echo "$caught passed, $missed failed"
[ "$missed" -eq 0 ]
