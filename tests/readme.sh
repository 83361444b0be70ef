#!/bin/sh
# README.md's C program, taken from the README itself, compiled against the archive
# and run on a store that the command builds. $1 is the build directory.
set -eu
b=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
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
echo "check-docs: the README's program compiles, runs and is right"
