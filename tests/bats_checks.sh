#!/bin/sh
# Finds checks in the command-line tests that cannot fail.
#
# bash ignores a `!` whose command succeeds, and a failure before `&&`, unless its status is
# that of a function. The end of a loop or an `if` is no such place: lines may be added
# behind it. A line that ends in `&&` goes on, perhaps to an `||`.
set -u
cd "$(dirname "$0")/.." || exit 2
dead=$(find tests \( -name '*.bats' -o -name '*.bash' \) -exec awk '
    FNR == 1 || !/^ *}/ { if (dead) print dead }
    { dead = "" }
    { bare = $0; gsub(/\047[^\047]*\047|"[^"]*"/, "", bare) }
    /^ *(.*&& *)?! / && !/\|\|/ && !/^ *(if|elif|while|until|#)/ { dead = FILENAME ":" FNR ": " $0 }
    (bare ~ /^ *\[\[? .*\]\]? && / || bare ~ /^ *(grep -[A-Za-z]*q|jq -[a-z]*e|ok|tells|gives|exits|fails|prints) .* && /) &&
        !/\|\|/ && !/(&&|\\)$/ { dead = FILENAME ":" FNR ": " $0 }
    END { if (dead) print dead }' {} +)
[ -z "$dead" ] && exit 0
echo "check-layers: checks that cannot fail, which need \`|| explain ...\`, or lines of their own:
$dead" >&2
exit 1
