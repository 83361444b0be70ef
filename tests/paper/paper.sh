#!/bin/sh
# Makes all tables, draws them, and says where they are: paper.sh PROGRAM DIR.
set -eu
program=$1 dir=$2
"$program" figures "$dir"
"$program" measure "$dir"
"$program" defaults "$dir"
"$program" kinds "$dir"
echo
tests/paper/plots.sh "$dir" >/dev/null
for file in "$dir"/*.csv "$dir"/*.svg; do
    echo "$file"
done
