#!/bin/sh
# Compares stops.txt with the lines "FUNCTION -- CALL ..." of stdin, in which functions
# that make the same calls are put together: `stops.sh BUILD`.
set -eu
awk '{ f = $1; sub(/[^ ]+ /, ""); if (!($0 in by)) order[++n] = $0; by[$0] = by[$0] f " " }
    END {
        for (i = 1; i <= n; i++) {
            width = 0
            n_words = split(by[order[i]] order[i], word, " ")
            for (k = 1; k <= n_words; k++) {
                if (width + length(word[k]) > 88) { printf "\n   "; width = 3 }
                printf "%s%s", width ? " " : "", word[k]
                width += 1 + length(word[k])
            }
            print ""
        } }' >"$1/tests/faults/stops.txt"
diff "$(dirname "$0")/stops.txt" "$1/tests/faults/stops.txt" && exit
echo "FAILED functions, or calls of theirs, are new or are not seen: tests/faults/stops.txt"
exit 1
