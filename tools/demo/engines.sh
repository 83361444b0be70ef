#!/bin/bash
# The demo's last part: blocks that RocksDB and LevelDB read for absent paths, with and
# without tamis, where their Debian packages are installed. It installs none of them.
# Usage: engines.sh BUILD LIST...; BUILD as for make's B. Status 3: a failure.
set -euo pipefail
export LC_ALL=C

build=${1:?usage: engines.sh BUILD LIST...}
shift
root=$(realpath "$(dirname "$0")/../..")
build=$(realpath -m --relative-to="$root" "$build") # as make names it in its rules
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

fail() {
    echo "demo: FAILED: $*" >&2
    exit 3
}

# As the Makefile asks, so that make has nothing to install for an engine that is there.
installed() {
    dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed
}

found=0
for engine in rocksdb leveldb; do
    installed lib$engine-dev || continue
    [ $found -eq 0 ] || echo
    found=$((found + 1))
    # A compiler for C++ may be missing: make says that it installs one.
    if ! "${MAKE:-make}" -s -C "$root" B="$build" demo-$engine 2>&1 | tee "$tmp/log" |
        sed -un '/^installing/p'; then
        cat "$tmp/log" >&2
        fail "the program for $engine does not build"
    fi
    mkdir "$tmp/$engine"
    "$root/$build/tools/demo/blocks_$engine" "$tmp/$engine" "$@" ||
        fail "blocks that $engine reads"
done
if [ $found -eq 0 ]; then
    echo "   Neither engine is installed: sudo apt-get install librocksdb-dev (or libleveldb-dev)"
fi
