#!/bin/sh
# The rooms of tools/ and their arrows: a room, and those whose headers it may include.
# inside.h and grow.h are for their own room alone.
set -u
cd "$(dirname "$0")/../tools" || exit 2
bad=0
complain() {
    echo "check-layers: $1" >&2
    bad=1
}

arrows='
talk
input   talk
open    talk input
output  talk input open
picture talk input open output
plan    talk input open output picture
command talk input open output picture plan
file    talk input open output
bridge  talk output
leveldb talk bridge
rocksdb talk bridge
'
seen=$(echo "$arrows" | while read -r room others; do
    [ -n "$room" ] || continue
    allowed=$(echo "$room $others" | tr ' ' '|')
    grep -HE '^#include "\.\./' "$room"/*.c "$room"/*.cc "$room"/*.h "$room"/*.hh 2>/dev/null |
        grep -vE "\"\.\./($allowed)/"
    grep -HE '^#include "\.\./.*/(inside|grow)\.h"' "$room"/*.c "$room"/*.h 2>/dev/null
done)
[ -z "$seen" ] || complain "a room that they may not see:
$seen"

hits=$(grep -H '"\.\./output/output\.h"' bridge/*)
[ -z "$hits" ] || complain "the bridge prints JSON and no facts of the command: $hits"
for d in talk input open output picture plan command file; do
    [ "$(find $d -type f | wc -l)" -le 24 ] || complain "tools/$d has more than 24 files"
    [ -f $d/README.md ] || complain "tools/$d has no README.md"
done
hits=$(wc -l ./*/*.[ch] | awk '$1 > 800 && $2 != "total"')
[ -z "$hits" ] || complain "files of more than 800 lines: $hits"
stray=$(find . -maxdepth 1 -type f ! -name tamis.c ! -name README.md)
[ -z "$stray" ] || complain "every file of the command but tamis.c has a room: $stray"
exit $bad
