#!/bin/sh
# Compiles the C lines of tools/leveldb/README.md as it says, and runs them on an empty
# database. $1 is the build directory.
set -eu
b=$1 readme=tools/leveldb/README.md
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
sed -n '/^```c$/,/^```$/{/^```/d;p;}' $readme >"$dir/lines"
[ -s "$dir/lines" ] || { echo "check-leveldb: $readme has no C" >&2; exit 1; }
{
    grep '^#include' "$dir/lines"
    echo '#include <stdio.h>'
    echo 'static void app(leveldb_options_t *options, const char *path) {'
    echo '    char *error = NULL;'
    sed '/^#include/d; s,/\* \.\.\. \*/,if (error) { puts(error); return; },' "$dir/lines"
    echo '} int main(int argc, char **argv) {'
    echo '    leveldb_options_t *options = leveldb_options_create();'
    echo '    leveldb_options_set_create_if_missing(options, 1);'
    echo '    if (argc == 2) app(options, argv[1]);'
    echo '    leveldb_options_destroy(options); }'
} >"$dir/app.c"
words=$(sed -n '/^    cc .*\\$/{N;s/\\\n//;s/^    cc //p;}' $readme | sed "s,NAME\.c,$dir/app.c,; s,build/,$b/,g")
# shellcheck disable=SC2086 # README.md's words of the compiler
${CC:-cc} -std=c11 -Wall -Wextra -Werror ${SANITIZE:-} -o "$dir/app" $words
said=$("$dir/app" "$dir/db")
[ -z "$said" ] && [ -f "$dir/db/CURRENT" ] || { echo "check-leveldb: $readme: $said" >&2; exit 1; }
