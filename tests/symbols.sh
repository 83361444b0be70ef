#!/bin/sh
# Checks what the built objects export and reference; $1 is the build directory.
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
# Each of its names has the version of lib/tamis.map, and the soname's number is in it.
node=TAMIS_$(objdump -p "$b/libtamis.so" | sed -n 's/.*SONAME *libtamis\.so\.//p')
exports=$(nm -D --defined-only "$b/libtamis.so" | awk '$2 != "A" || $3 !~ /^TAMIS_/ {print $3}')
other=$(printf '%s\n' "$exports" | grep -vE "^tamis_[a-z_]+@@$node\$")
[ -z "$other" ] || complain "libtamis.so exports more than tamis_* of version $node: $other"

# The library exports what the headers declare, and nothing else.
declared=$(sed -e 's,/\*.*\*/,,' -e '/\/\*/,/\*\//d' lib/tamis.h lib/tamis_inline.h lib/tamis/*.h |
    sed '/^\(static inline\|TAMIS_INLINE\|TAMIS_APART\)/,/^}/d' | grep -oE '\<tamis_[a-z_]+\(' | tr -d '(' | grep -v '_fn$' | sort -u)
exported=$(printf '%s\n' "$exports" | sed 's/@.*//' | sort -u)
[ "$declared" = "$exported" ] || complain "tamis.h and libtamis.so differ:
$(printf '%s\n' "$declared" "$exported" | sort | uniq -u)"

used=$(nm -u "$b"/format/*.o | grep -oE '\<(malloc|calloc|realloc|free|open|read|write|pread|pwrite|mmap|printf|pthread_[a-z_]+)\>')
[ -z "$used" ] || complain "format/ references $used"
used=$(nm -u "$b/libtamis-filter.a" | grep -o '\<mdb_[a-z_]*')
[ -z "$used" ] || complain "libtamis-filter.a references $used"
used=$(nm "$b"/lib/error.o "$b"/lib/*/*.o "$b"/lib/*/*/*.o "$b/libtamis.a" "$b/libtamis-filter.a" "$b/libtamis.so" |
    grep -o '\<sync_point\>' | sort -u)
[ -z "$used" ] || complain "what is shipped has the places where tests hold threads: $used"
[ $bad -eq 0 ] && echo "check-symbols: exports and references are as they should be"
exit $bad
