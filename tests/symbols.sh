#!/bin/sh
# What the built objects export and reference; $1 is the build directory.
set -u
b=$1
bad=0
complain() {
    echo "check-symbols: $1" >&2
    bad=1
}

for lib in "$b/libtamis.a" "$b/libtamis-filter.a"; do
    other=$(nm -g --defined-only "$lib" | awk 'NF == 3 && $3 !~ /^tamis_/ {print $3}')
    [ -z "$other" ] || complain "$lib exports more than tamis_*: $other"
done
other=$(nm -D --defined-only "$b/libtamis.so" | awk '$3 !~ /^tamis_/ {print $3}')
[ -z "$other" ] || complain "libtamis.so exports more than tamis_*: $other"

# Every function that the header declares is exported, and nothing else.
declared=$(grep -oE '\<tamis_[a-z_]+\(' lib/tamis.h | tr -d '(' | sort -u |
    grep -vxE 'tamis_field_fn')
exported=$(nm -D --defined-only "$b/libtamis.so" | awk '{print $3}' | sort -u)
for f in $exported; do
    echo "$declared" | grep -qx "$f" || complain "$f is exported, but not in tamis.h"
done
for f in $(grep -A3 TAMIS_API lib/tamis.h | grep -oE '\<tamis_[a-z_]+\(' | tr -d '(' | sort -u); do
    echo "$exported" | grep -qx "$f" || complain "$f is in tamis.h, but not exported"
done

used=$(nm -u "$b"/format/*.o | grep -oE '\<(malloc|calloc|realloc|free|open|read|write|pread|pwrite|mmap|printf|pthread_[a-z_]+)\>')
[ -z "$used" ] || complain "format/ references $used"
used=$(nm -u "$b"/lib/error.o "$b"/lib/filter/*.o "$b/libtamis-filter.a" | grep -o '\<mdb_[a-z_]*')
[ -z "$used" ] || complain "lib/filter references $used"
[ $bad -eq 0 ] && echo "check-symbols: exports and references are as they should be"
exit $bad
