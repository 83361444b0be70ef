#!/bin/sh
# compile_commands.json for editors; the arguments are the compiler's flags.
cd "$(dirname "$0")/.." || exit 2
flags=$*
sep="["
for f in format/*.c lib/*.c lib/*/*.c lib/*/*/*.c tools/*.c tools/*/*.c tests/unit/*/*.c tests/golden/*.c; do
    case $f in
    tools/*) inc="-Ilib" ;;
    *) inc="-I. -Ilib" ;;
    esac
    printf '%s\n{"directory": "%s", "file": "%s", "command": "cc %s %s -c %s"}' \
        "$sep" "$PWD" "$f" "$flags" "$inc" "$f"
    sep=","
done
printf '\n]\n'
