#!/bin/bash
# tamis on real data: every package's file list that dpkg keeps is a segment, its lines
# are the keys. Usage: demo.sh TAMIS DIR; the store is left in DIR/store. engines.sh is
# its last part, and builds in the directory of TAMIS.
set -euo pipefail
export LC_ALL=C

tamis=${1:?usage: demo.sh TAMIS DIR} dir=${2:?usage: demo.sh TAMIS DIR}
store=$dir/store
shopt -s nullglob
lists=(/var/lib/dpkg/info/*.list)
shopt -u nullglob
if [ ${#lists[@]} -eq 0 ]; then
    echo "demo: no /var/lib/dpkg/info/*.list here: it needs a Debian machine" >&2
    exit 2
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$dir"
rm -rf "$store"

title() { printf '\n== %s\n\n' "$*"; }
row() { printf '   %-34s %s\n' "$1" "$2"; }
commas() { sed -E ':a; s/([0-9])([0-9]{3})($|[^0-9])/\1,\2\3/; ta' <<<"$1"; }
since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f", b - a }'; }
bytes() { # apparent and allocated, of files
    printf '%s bytes, %s allocated' "$(commas "$(du -cbl "$@" | tail -1 | cut -f1)")" \
        "$(commas "$(du -clB1 "$@" | tail -1 | cut -f1)")"
}
fail() {
    echo "demo: FAILED: $*" >&2
    exit 3
}

# Answers of `tamis probe` for one path on stdin: the lists that may have it, as file
# names, into $candidates.
candidates_of() {
    local key segment reason
    candidates=()
    while IFS=$'\t' read -r key segment reason; do
        [ "$reason" = ABSENT ] || candidates+=("/var/lib/dpkg/info/$segment.list")
    done
}

# Prints the candidates that have the path. Reads only these lists.
owners_among() {
    owners=()
    [ ${#candidates[@]} -eq 0 ] ||
        mapfile -t owners < <(grep -lxF -e "$1" -- "${candidates[@]}" || true)
}

print_owners() {
    owners_among "$1"
    for owner in "${owners[@]}"; do printf '%s\t%s\n' "$1" "$owner"; done
}

title "The data: one file list per installed package, one path per line"
cat "${lists[@]}" >"$tmp/every"
n_keys=$(wc -l <"$tmp/every")
row "lists (segments)" "$(commas ${#lists[@]})"
row "paths in them (keys)" "$(commas "$n_keys")"
row "median list" "$(for l in "${lists[@]}"; do wc -l <"$l"; done | sort -n |
    sed -n "$(((${#lists[@]} + 1) / 2))p") paths"

title "Build: a filter per list, all in one edit"
echo "   \$ tamis init STORE"
echo "   \$ tamis build STORE --each -j2 --strip .list /var/lib/dpkg/info/*.list"
echo
start=$EPOCHREALTIME
"$tamis" init "$store"
"$tamis" build "$store" --each -j2 --strip .list "${lists[@]}"
row "built and durable in" "$(since "$start") s"
row "lists" "$(bytes "${lists[@]}")"
row "filters (of 8 KiB or more)" "$(bytes "$store"/filters/*.tamis)"
row "catalog" "$(bytes "$store/catalog.lmdb")"

# Pages that one probe of a path brings into memory, of how many: files of the store's
# filters have left the page cache before.
pages_touched() {
    local file
    sync "$store"/filters/*
    for file in "$store"/filters/*; do
        dd of="$file" oflag=nocache conv=notrunc,fdatasync count=0 status=none
    done
    "$tamis" probe "$store" "$1" >/dev/null
    "$tamis" stat "$store" --residency | awk '/ in all$/ { print $1 " of " $2 }'
}

# Seconds that a command takes, of ten runs.
seconds_each() {
    local start=$EPOCHREALTIME i
    for i in 1 2 3 4 5 6 7 8 9 10; do "$@" >/dev/null || [ $? -eq 1 ] || fail "$*"; done
    awk -v s="$(since "$start")" 'BEGIN { printf "%.4f", s / 10 }'
}

title "Pack: all filters side by side in one file, which one probe reads in a few lines"
path=/usr/bin/no-such-command
row "grep -lxF PATH in all lists" "$(seconds_each grep -lxF $path "${lists[@]}") s"
row "tamis probe PATH, a file a filter" "$(seconds_each "$tamis" probe "$store" $path) s"
touched=$(pages_touched $path)
row "  pages of filters that it touches" "$touched"
echo "   \$ tamis pack STORE"
"$tamis" pack "$store" -q
row "pack, with its tombstones" "$(bytes "$store"/filters/*)"
row "tamis probe PATH, packed" "$(seconds_each "$tamis" probe "$store" $path) s"
touched=$(pages_touched $path)
row "  pages of the pack that it touches" "$touched"

title "Ask: which packages may own this path?"
# Some that exist on every Debian, one that most packages own, and some that nobody has.
printf '   %-34s %6s %8s  %s\n' path "read" skipped "then found in"
total_read=0 total_skipped=0
for path in /usr/bin/env /etc/bash.bashrc /usr/share/man/man1/dpkg.1.gz \
    /usr/share/doc /usr/bin/no-such-command /etc/made/up.conf /opt/tamis/nowhere; do
    candidates_of < <("$tamis" probe "$store" "$path")
    owners_among "$path"
    read=${#candidates[@]} skipped=$((${#lists[@]} - ${#candidates[@]}))
    found=${owners[*]:0:2}
    found=${found//\/var\/lib\/dpkg\/info\//}
    found=${found//.list/}
    [ ${#owners[@]} -le 2 ] || found="$found and $((${#owners[@]} - 2)) more"
    [ ${#owners[@]} -gt 0 ] || found="no package"
    printf '   %-34s %6d %8d  %s\n' "$path" "$read" "$skipped" "$found"
    total_read=$((total_read + read)) total_skipped=$((total_skipped + skipped))
done
printf '   %-34s %6d %8d\n' "lists in all" "$total_read" "$total_skipped"

title "Nothing is lost: every key of every list against its own filter"
echo "   \$ tamis verify STORE --against-each --strip .list /var/lib/dpkg/info/*.list"
echo
"$tamis" verify "$store" --against-each --strip .list "${lists[@]}" >"$tmp/verify" ||
    fail "$(tail -1 "$tmp/verify")"
echo "   $(tail -1 "$tmp/verify")"
echo
echo "   This check can fail: the list of coreutils against the filter of dpkg"
if "$tamis" verify "$store" dpkg --against /var/lib/dpkg/info/coreutils.list \
    >"$tmp/verify" 2>/dev/null; then
    fail "keys of coreutils are all said to be in dpkg"
fi
echo "   $(tail -1 "$tmp/verify")"

title "Error: one filter of all distinct paths, asked for a million that are absent"
sort -u "$tmp/every" >"$tmp/distinct"
# Real paths with an ending that no path has, so that they look like the real ones.
if grep -qF .tamis-demo- "$tmp/distinct"; then fail "a package has *.tamis-demo-*"; fi
n_distinct=$(wc -l <"$tmp/distinct")
awk -v n="$n_distinct" '{ for (i = 0; i * n < 1000000; i++) print $0 ".tamis-demo-" i }' \
    "$tmp/distinct" | head -1000000 >"$tmp/absent" || true
row "distinct paths" "$(commas "$n_distinct")"
printf '   %-10s %-12s %-12s %-28s %s\n' target expected measured "false positives" \
    "bits per key, all counted"
for target in 0.1 0.01 0.001; do
    rm -f "$tmp/all.tamis"
    "$tamis" file build "$tmp/all.tamis" "$tmp/distinct" --fpr $target -q
    expected=$("$tamis" plan --keys "$n_distinct" --fpr $target |
        awk '$1 == "error" { printf "%.4g%%", 100 * $2 }')
    "$tamis" file probe "$tmp/all.tamis" --keys "$tmp/absent" --count |
        awk -v target=$target -v expected="$expected" -v n="$n_distinct" \
            -v bytes="$(stat -c %s "$tmp/all.tamis")" '
            { total[$1] = $2 }
            END {
                e = total["maybe_pairs"] / total["keys"]
                printf "   %-10s %-12s %-12s %-28s %.2f\n", 100 * target "%", expected,
                    sprintf("%.4g%%", 100 * e), total["maybe_pairs"] " of " total["keys"],
                    8 * bytes / n
            }'
done

awk -v step=$((n_distinct / 150 + 1)) 'NR % step == 0 && !/[^ -~]|\\/ { print }' \
    "$tmp/distinct" | head -150 >"$tmp/there"
{ cat "$tmp/there"; sed 's/$/.tamis-demo-0/' "$tmp/there"; } >"$tmp/ask"
n_ask=$(wc -l <"$tmp/ask")
title "Time: who owns these $n_ask paths? (half of them exist; all files are cached)"

timed() { printf '   %-56s %8s s\n' "$1" "$(since "$start")"; }

start=$EPOCHREALTIME
while IFS= read -r path; do
    candidates=("${lists[@]}")
    print_owners "$path"
done <"$tmp/ask" >"$tmp/by_grep"
timed "per path: grep -lxF PATH in all lists"

start=$EPOCHREALTIME
while IFS= read -r path; do
    candidates_of < <("$tamis" probe "$store" "$path")
    print_owners "$path"
done <"$tmp/ask" >"$tmp/by_tamis"
timed "per path: tamis probe PATH, grep in its candidates"

start=$EPOCHREALTIME
"$tamis" probe "$store" --keys "$tmp/ask" >"$tmp/answers"
last='' candidates=()
while IFS=$'\t' read -r key segment reason; do
    [ "$key" = "$last" ] || { print_owners "$last"; candidates=(); }
    [ "$reason" = ABSENT ] || candidates+=("/var/lib/dpkg/info/$segment.list")
    last=$key
done <"$tmp/answers" >"$tmp/by_tamis_once"
print_owners "$last" >>"$tmp/by_tamis_once"
timed "tamis probe --keys once, grep in the candidates"

start=$EPOCHREALTIME
grep -xFZH -f "$tmp/ask" -- "${lists[@]}" | tr '\0' '\t' >"$tmp/grep_once" || true
timed "grep -xF -f PATHS over all lists once"

head -50000 "$tmp/distinct" >"$tmp/many"
start=$EPOCHREALTIME
"$tamis" probe "$store" --keys "$tmp/many" --count >"$tmp/count"
awk -v s="$(since "$start")" -v lists=${#lists[@]} '{ t[$1] = $2 } END {
    printf "   %-56s %8.1f us\n", "one path, " lists " filters, as an engine asks: store open",
        1e6 * s / t["keys"] }' "$tmp/count"
echo
"$tamis" probe "$store" --keys "$tmp/ask" --count >"$tmp/count"
awk -v n="$n_ask" '{ t[$1] = $2 } END {
    printf "   For these %d paths %d lists must be read; %d reads of %d are skipped.\n", n,
        t["maybe_pairs"], t["absent_pairs"], t["pairs"] }' "$tmp/count"

# Every list that grep finds must be among the lists that tamis names, from either side.
sort "$tmp/by_grep" >"$tmp/a"
sort "$tmp/by_tamis" | cmp -s - "$tmp/a" || fail "tamis with grep and grep do not agree"
sort "$tmp/by_tamis_once" | cmp -s - "$tmp/a" || fail "tamis --keys and grep do not agree"
awk -F '\t' '{ print $2 "\t" $1 }' "$tmp/grep_once" | sort | cmp -s - "$tmp/a" ||
    fail "the two greps do not agree"
awk -F '\t' '$3 != "ABSENT" { print $1 "\t/var/lib/dpkg/info/" $2 ".list" }' \
    "$tmp/answers" | sort >"$tmp/b"
[ -z "$(comm -23 "$tmp/a" "$tmp/b")" ] || fail "grep found a list that tamis ruled out"
echo "   All $(wc -l <"$tmp/a") lists that grep names are among the $(wc -l <"$tmp/b") candidates."
cat <<END

   Honestly: everything here is in the page cache and small, which suits grep; and for
   many paths at once one pass of grep is hard to beat. A filter pays where the store
   stays open and a read costs a disk.
END

title "Engines: blocks that RocksDB or LevelDB reads for absent paths"
"$(dirname "$0")/engines.sh" "$(dirname "$tamis")" "${lists[@]}"

title "Next"
cat <<END
   The store stays in $store. Try:

   $tamis probe $store /usr/bin/env /usr/bin/envy
   $tamis stat $store coreutils
   printf 'a\nb\nc\n' | $tamis grow $store mine && $tamis probe $store a x

   '$tamis help' lists the commands.
END
