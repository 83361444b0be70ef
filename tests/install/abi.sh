#!/bin/sh
# The ABI of the shared library, as its debug information has it: abi.sh record LIBRARY
# FILE writes it, abi.sh compare LIBRARY FILE says how it differs from what was written.
# Only what tamis.h and its parts declare is in the record: no private type, path or line
# number, and no more of the machine than that it has 64 bits.
set -eu
library=$2 record=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/include"
cp -r "$(dirname "$0")/../../lib/tamis.h" "$(dirname "$0")/../../lib/tamis_inline.h" "$(dirname "$0")/../../lib/tamis" "$dir/include"

# A library without debug information has no types, and would equal anything.
readelf -S "$library" | grep -q '\.debug_info' ||
    { echo "abi: $library has no debug information: build it with -g, as by default" >&2; exit 2; }
abidw --headers-dir "$dir/include" --drop-private-types --exported-interfaces-only \
    --no-architecture --no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed \
    --type-id-style hash --out-file "$dir/now.xml" "$library"
perl "$(dirname "$0")/abi.pl" "$dir/now.xml" >"$dir/now"

case $1 in
record) cp "$dir/now" "$record" ;;
compare)
    diff -u "$record" "$dir/now" && exit
    echo "abi: this is not what $record has. Only additions: 'make abi-record'. A change" >&2
    echo "or a removal breaks programs: raise the first number of TAMIS_VERSION, too." >&2
    exit 3 ;;
esac
