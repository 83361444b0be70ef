#!/bin/sh
# No file calls another that calls it, over however many. The arguments are object files.
set -u
loop=$(nm -A "$@" | awk '
    { file = $1; sub(/:[^:]*$/, "", file) }
    $(NF - 1) ~ /^[TDBR]$/ { home[$NF] = file }
    $(NF - 1) == "U" { uses[file " " $NF] }
    END {
        for (u in uses) {
            split(u, w, " ")
            if (w[2] in home && home[w[2]] != w[1])
                print w[1], home[w[2]]
        }
    }' | tsort 2>&1 >/dev/null)
[ -z "$loop" ] && exit 0
echo "check-symbols: files that call each other in a circle:
$loop" >&2
exit 1
