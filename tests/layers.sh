#!/bin/sh
# The layers and their arrows: tools -> lib/tamis.h -> lib/store -> the other rooms of
# lib -> format -> libc, xxhash. rooms.sh has the arrows between the rooms.
# Include paths per directory enforce most of it; this looks at what they cannot see.
set -u
cd "$(dirname "$0")/.." || exit 2
bad=0
complain() {
    echo "check-layers: $1" >&2
    bad=1
}

# $1: files, $2: pattern of what they must not have, $3: why
forbid() {
    # shellcheck disable=SC2086
    hits=$(grep -nE "$2" $1 /dev/null) && complain "$3:
$hits"
}

forbid "format/*.[ch]" '#include +[<"](lib/|tools/|lmdb|unistd|stdio|stdlib|sys/|pthread|fcntl|errno)' \
    "format/ knows bytes only"
forbid "format/*.[ch]" '\<(malloc|calloc|realloc|free|mmap|open|pread|pwrite|printf)\(' \
    "format/ allocates nothing and does no I/O"
below=$(ls lib/*.[ch] lib/*/*.[ch] | grep -vE '^lib/(store/|tamis)')
forbid "$below" 'lmdb|mdb_|MDB_' "only lib/store mentions LMDB"
forbid "$below" '#include +"lib/store' "only lib/store knows lib/store"
hits=$(grep -ln '#include *<lmdb.h>' lib/*.[ch] lib/*/*.[ch] lib/*/*/*.[ch] tools/*.[ch] | grep -v '^lib/store/catalog/')
[ -z "$hits" ] || complain "only lib/store/catalog includes <lmdb.h>: $hits"
forbid "lib/*.c lib/*/*.c lib/*/*/*.c" '#include +[<"]tools/' "the library does not know the tools"
forbid "lib/*.c lib/*/*.c lib/*/*/*.c format/*.c" '\<(printf|puts|fprintf|exit|perror)\(' \
    "the library prints nothing and never exits"
forbid "tools/*.[ch]" '#include +["<](\.\./|lib/|format/|internal\.h|lmdb|xxhash)' \
    "tools use tamis.h and nothing below it"
forbid "$(find tools/*/ -name '*.[ch]' -o -name '*.cc' -o -name '*.hh')" \
    '#include +["<](\.\./\.\./|\.\./(lib|format)|lib/|format/|internal\.h|lmdb|xxhash)' \
    "tools use tamis.h and nothing below it"
hits=$(grep -ln '#include *<math.h>' lib/*.c lib/*/*.c lib/*/*/*.c format/*.[ch] | grep -v '^lib/plan/')
[ -z "$hits" ] || complain "lib/plan is the only user of libm: $hits"
# The seam: calls that write stand in io.c and nowhere else.
hits=$(grep -nE '(^|[^_.[:alnum:]>])(pwrite|fdatasync|fsync|fallocate|renameat2|ftruncate)\(' lib/*/*.c lib/*/*/*.c | grep -v '^lib/io/io.c:')
[ -z "$hits" ] || complain "system calls that write go through io.c:
$hits"
[ "$(ls lib/*.h)" = "lib/error.h
lib/sync_point.h
lib/tamis.h
lib/tamis_inline.h" ] || complain "lib/ has two public headers, the parts of tamis.h in tamis/, and two for all rooms"
# A program includes tamis.h, or tamis_inline.h, which does; it includes each of its parts.
[ "$(sed -n 's,^#include "\(tamis/.*\)",lib/\1,p' lib/tamis.h | sort)" = "$(ls lib/tamis/*.h)" ] ||
    complain "lib/tamis.h does not include each header of lib/tamis/"
extra=$(git ls-files 2>/dev/null | cut -d/ -f1 | grep -v '^\.' | sort -u |
    grep -vxE 'lib|format|tools|tests|fuzz|Makefile|SPEC.md|README.md|LICENSE')
[ -z "$extra" ] || complain "not for the top level: $extra"
# A unit test includes cmocka.h: on a clean machine it waits until that is installed. A
# build keeps what gcc noted of a test that has gone.
hits=$(env -u MAKEFLAGS -u MFLAGS make -pn B=build unit 2>/dev/null |
    grep -E '^build/tests/unit/[a-z_/]+\.o:' | grep -v '|.* deps-test' |
    sed 's,^build/\(.*\)\.o:.*,\1.c,' | xargs -r ls 2>/dev/null)
[ -z "$hits" ] || complain "tests whose objects do not wait for deps-test: $hits"
[ $bad -eq 0 ] && echo "check-layers: the rooms are in order"
exit $bad
