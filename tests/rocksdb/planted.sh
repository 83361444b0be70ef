#!/bin/sh
# Each patch of planted/ is a bug: built in a copy of the tree, the tests must fail of it.
# $1: the build directory; $2: a pattern of names, or none.
set -u
cd "$(dirname "$0")/../.." || exit 2
tree=$1/planted/tree
log=$1/planted/log
rm -rf "$tree" && mkdir -p "$tree" || exit 2
cp -a Makefile lib format tools tests fuzz "$tree" || exit 2
mkdir -p "$tree/build" && cp -a "$1"/lib* "$1"/format "$1"/tools "$1"/tests "$tree/build" || exit 2
caught=0 missed=0
for patch in tests/rocksdb/planted/*/*${2:-}*.patch; do
    name=$(basename "$patch" .patch)
    patch=$PWD/$patch
    (cd "$tree" && patch -sp1 <"$patch" && make -s build/tests/rocksdb/rocksdb rocksdb) \
        >"$log" 2>&1 || { cat "$log"; echo "planted: $name does not build" >&2; exit 2; }
    if (cd "$tree" && build/tests/rocksdb/rocksdb --tool build/tamis-rocksdb --kills 8 \
        --keys 120000) >"$log" 2>&1; then
        echo "missed  $name"
        missed=$((missed + 1))
    else
        printf 'caught  %-36s %s\n' "$name" "$(sed -n 's/^FAILED *\(.*[^ ]\)  *[0-9.]* s$/\1;/p' "$log" | tr '\n' ' ')"
        caught=$((caught + 1))
    fi
    (cd "$tree" && patch -sRp1 <"$patch")
done
echo "$caught passed, $missed failed"
[ "$missed" -eq 0 ]
