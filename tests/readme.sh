#!/bin/sh
# Each room has a README.md, and all that it names is there. README.md's C program, taken
# from the README itself, is compiled against the archive and run on a store that the
# command builds. $1 is the build directory.
set -eu
b=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# ---- the rooms' READMEs ----

# find_file NAME ROOM: NAME, which may have a `*`, as seen from its room or from the top.
find_file() {
    for file in $2/$1 $1; do
        [ -e "$file" ] && return
    done
    return 1
}

# check_room ROOM: a line for each thing that its README says and that is not so.
check_room() {
    readme=$1/README.md
    [ -f "$readme" ] || { echo "$1 has no README.md"; return; }
    text=$(tr '\n' ' ' <"$readme")
    # Names in capitals stand for any.
    for name in $(printf '%s' "$text" | grep -oE '[A-Za-z0-9_./*-]+\.(awk|bash|bats|c|h|map|md|mk|pl|py|scd|sh|tsv|txt)\>' |
        grep -vE '(NAME|NNN|X)[.-]' | sort -u); do
        find_file "$name" "$1" || echo "$readme names $name, which is not there"
    done
    for name in $(printf '%s' "$text" | grep -oE '[A-Za-z0-9_]+\(\)' | tr -d '()' | sort -u); do
        grep -qx "$name" "$dir/functions" || echo "$readme names $name(), which is not there"
    done
    # In tools/command a file is the command of its name.
    case $1 in tools/command) ;;
    lib* | format | tools/*)
        for file in "$1"/*.c; do
            [ ! -e "$file" ] || grep -qw "$(basename "$file")" "$readme" || echo "$readme lacks $(basename "$file")"
        done ;;
    esac
    # "`function()` in `file`", and "file   function()" of a table.
    printf '%s' "$text" | grep -oE '`[a-z0-9_]+\(\)` in `[^` ]+`|[a-z0-9_/]+\.[ch] +[a-z0-9_]+\(\)' |
        sed -E 's/^`([^`]*)` in `([^`]*)`$/\2 \1/; s/\(\)//' | while read -r name function; do
        if find_file "$name" "$1" && ! grep -q "\\<$function(" "$file"; then
            echo "$readme: $name has no $function()"
        fi
    done
}

grep -ohrE --include='*.[ch]' '\<[A-Za-z0-9_]+\(' format lib fuzz tests tools | tr -d '(' | sort -u >"$dir/functions"
rooms=$(find lib -type d; find tools/* -name README.md -exec dirname {} +)
for room in format fuzz tests tools $rooms; do
    check_room "$room"
done >"$dir/wrong"
[ ! -s "$dir/wrong" ] || { sed 's/^/check-docs: /' "$dir/wrong" >&2; exit 1; }

# ---- the README's program ----

sed -n '/^```c$/,/^```$/{/^```/d;p;}' README.md >"$dir/ask.c"
[ -s "$dir/ask.c" ] || { echo "check-docs: README.md has no C program" >&2; exit 1; }
lines=$(wc -l <"$dir/ask.c")
[ "$lines" -le 24 ] || { echo "check-docs: the README's program has $lines lines" >&2; exit 1; }
${CC:-cc} -std=c11 -Wall -Wextra -Werror ${SANITIZE:-} -Ilib -o "$dir/ask" "$dir/ask.c" \
    "$b/libtamis.a" -llmdb -lxxhash -lm -pthread
"$b/tamis" init "$dir/store"
printf 'apple\npear\n' | "$b/tamis" build "$dir/store" fruit
printf 'leek\n' | "$b/tamis" build "$dir/store" vegetables
got=$("$dir/ask" "$dir/store" pear)
case $got in
*fruit*) ;;
*) echo "check-docs: asked for pear, the README's program said: $got" >&2; exit 1 ;;
esac
"$dir/ask" "$dir/store" pear | grep -q vegetables &&
    { echo "check-docs: pear is not a vegetable (or a rare false positive)" >&2; exit 1; }
"$dir/ask" "$dir/nowhere" pear >/dev/null 2>&1 &&
    { echo "check-docs: the README's program does not notice a missing store" >&2; exit 1; }
# The header is C++ too.
printf '#include <tamis.h>\nint main() { return tamis_version() == 0 || TAMIS_FIELD_TEXT == 0; }\n' >"$dir/cc.cc"
${CXX:-g++} -Wall -Wextra -Werror ${SANITIZE:-} -Ilib -o "$dir/cc" "$dir/cc.cc" "$b/libtamis.a" -llmdb -lxxhash -lm -pthread
"$dir/cc"
for word in 'make demo' 'make check' 'make check-all' 'make help'; do
    grep -q "$word" README.md || { echo "check-docs: README.md lacks $word" >&2; exit 1; }
done
echo "check-docs: the README's program is right, and what the rooms' READMEs name is there"
