#!/bin/sh
# The rooms of lib/ and the arrows between them, by what the objects of the build call
# and by what the sources include; and how large folders and files may be. $1 is the
# build directory.
set -u
cd "$(dirname "$0")/.." || exit 2
build=$1
bad=0
complain() {
    echo "check-layers: $1" >&2
    bad=1
}

# Room: the rooms that it may use, beside format and the headers at lib's top.
table='
lib:
lib/io: lib
lib/plan: lib
lib/kernel: lib
lib/kernel/list: lib lib/kernel
lib/sort: lib
lib/page: lib lib/io lib/kernel
lib/filter: lib lib/io lib/plan lib/kernel lib/kernel/list lib/page
lib/list: lib lib/io lib/kernel/list lib/page lib/filter lib/sort
lib/builder: lib lib/io lib/plan lib/kernel lib/filter lib/sort lib/list
lib/writer: lib lib/io lib/plan lib/kernel lib/page lib/filter
lib/derive: lib lib/io lib/plan lib/kernel lib/page lib/filter lib/builder
lib/pack: lib lib/io lib/plan lib/kernel lib/page lib/filter lib/sort
lib/store/base: lib lib/io lib/page lib/filter
lib/store/catalog: lib lib/io lib/page lib/filter lib/store/base
lib/store: lib lib/io lib/plan lib/filter lib/writer lib/store/base lib/store/catalog
lib/store/snapshot: lib lib/io lib/plan lib/kernel lib/page lib/filter lib/pack lib/store/base lib/store/catalog
lib/store/query: lib lib/io lib/kernel lib/page lib/filter lib/store/base lib/store/catalog lib/store/snapshot
lib/store/edit: lib lib/io lib/plan lib/kernel lib/filter lib/list lib/builder lib/derive lib/pack lib/writer lib/store/base lib/store/catalog lib/store/snapshot
lib/store/repair: lib lib/io lib/plan lib/filter lib/pack lib/writer lib/store/base lib/store/catalog lib/store lib/store/snapshot lib/store/edit lib/list
lib/store/backup: lib lib/io lib/filter lib/store/base lib/store/catalog lib/store/snapshot
'

# "USER USED" for each pair of files of which the first calls the second by a name.
calls() {
    for c in $(find "$@" -name '*.c'); do
        nm -A "$build/${c%.c}.o" || exit 2
    done | awk -v build="$build/" '
        { at = index($0, ".o:"); file = substr($0, length(build) + 1, at - length(build) - 1) }
        $(NF - 1) == "U" { n++; user[n] = file; name[n] = $NF; next }
        $(NF - 1) ~ /^[TDBRVWGS]$/ { home[$NF] = file }
        END {
            for (i = 1; i <= n; i++) {
                f = home[name[i]]
                if (f != "" && f != user[i]) print user[i], f, name[i]
            }
        }'
}
includes() {
    grep -noE '^#include +"[^"]+"' $(find "$@" -name '*.[ch]') | sed -E 's/^([^:]+):[0-9]+:#include +"([^"]+)"$/\1 \2/'
}

# The rooms of the library.
{
    calls lib | awk '{ print $1, $2, $3 }'
    includes lib | awk '$2 ~ /^lib\// { print $1, $2, "(include)" }'
} | awk -v table="$table" '
    function room(path) { sub(/\/[^\/]*$/, "", path); return path }
    BEGIN {
        n = split(table, lines, "\n")
        for (i = 1; i <= n; i++) {
            if (split(lines[i], w, " ") == 0) continue
            sub(/:$/, "", w[1])
            known[w[1]] = 1
            for (k = 2; k in w; k++) may[w[1], w[k]] = 1
            delete w
        }
    }
    {
        a = room($1); b = room($2)
        if (!(a in known)) { print a ": a room that the table does not have"; next }
        if (a == b || (a, b) in may) next
        print $1 " uses " $2 " " $3
    }' | sort -u >"$build/rooms.log"
[ ! -s "$build/rooms.log" ] || complain "arrows that the table in tests/rooms.sh does not have:
$(cat "$build/rooms.log")"

circle=$(includes lib format | sort -u | tsort 2>&1 >/dev/null)
[ -z "$circle" ] || complain "files that include each other in a circle:
$circle"
inner=$(includes lib | awk '{ own = $1; sub(/[^\/]*$/, "inside.h", own) } $2 ~ /\/inside\.h$/ && $2 != own')
[ -z "$inner" ] || complain "an inside.h is for its own room alone:
$inner"

# tests/golden and the corpora of fuzz are data.
for room in format fuzz $(find lib tests -type d ! -path 'tests/golden*'); do
    [ "$(find "$room" -maxdepth 1 -type f | wc -l)" -le 24 ] || complain "$room has more than 24 files"
done
long=$(find lib format fuzz tests ! -name tamis.h -type f \( -name '*.[ch]' -o -name '*.cc' -o -name '*.sh' -o -name '*.bats' -o -name '*.pl' \) -exec wc -l {} + | awk '$1 > 800 && $2 != "total"')
[ -z "$long" ] || complain "files of more than 800 lines: $long"
exit $bad
