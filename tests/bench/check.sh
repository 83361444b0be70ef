#!/bin/sh
# The smallest form of the benchmark: does it run, is every figure there, do the two sides
# of each agree, does it tell a wrong answer? It looks at no time. check.sh PROGRAM DIR.
set -u
program=$1 dir=$2
. tests/ok.sh

# Copies are then counted by instructions: fewer traps.
never=0x7fffffff
export GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=$never:glibc.cpu.x86_rep_stosb_threshold=$never
ok "it runs, and nothing is wrong" "$program" --tiny --seed 3 --out "$dir"
# A figure has a row: two values, of us and of the other, and their ratio; or the reason
# why this machine or its RocksDB cannot be measured.
row='^\| %s \| [^|]+ \| [^|]+: [0-9.]+[^|]* \| [^|]+: [0-9.]+[^|]* \| [0-9.]+[^|]* \|'
missing='^\| %s \|.*not measured: (RocksDB is [0-9.]+, known|instructions are|.* is a tmpfs)'
ids=$("$program" --list)
for id in $ids; do
    # shellcheck disable=SC2059
    ok "figure $id" grep -Eq "$(printf "$row|$missing" "$id" "$id")" "$dir/bench.md"
done
ok "the table has no other rows" [ "$(grep -c '^| [a-z]' "$dir/bench.md")" -eq $(($(echo "$ids" | wc -l) + 1)) ]
# Counted, so that speed has no part in it.
for id in $(echo "$ids" | grep -E '^law_(.*_steps|memory|edits_written|edits_space|syncs)$'); do
    ok "$id keeps what is asked" sh -c '! grep -q "^| $0 .*missed" "$1"' "$id" "$dir/bench.md"
done
for words in 'processor: ' 'compiler ' 'files on ' 'load before: ' 'load after: '; do
    ok "the machine: $words" grep -q "^- .*$words" "$dir/bench.md"
done
ok "no file is left behind" [ "$(find "$dir" -type f | sort | tr '\n' ' ')" = "$dir/bench.md $dir/log " ]

# planted WHAT WORDS: the run fails, and says so.
planted() {
    "$program" --tiny --seed 3 --out "$dir" --only '^(single_small_call|strings_small|growing_loads)$' --plant "$1"
    [ $? -eq 1 ] && [ "$(grep -c "$2" "$dir/bench.md")" -ge 2 ]
}
ok "a lost key fails it" planted loss '^WRONG: .* ABSENT'
ok "too many errors fail it" planted error '^WRONG: .* error'
ok "one figure by its name" "$program" --tiny --only '^single_small_call$' --out "$dir"
ok "alone in its table" [ "$(grep -c '^| [a-z]' "$dir/bench.md")" -eq 2 ]
for option in --nonsense "--seed x" "--seed 99999999999999999999" "--only nonsense" "--only ("; do
    # shellcheck disable=SC2086
    ok "$option is refused" sh -c '"$0" --tiny --out "$1" $2; [ $? -eq 2 ]' "$program" "$dir" "$option"
done

# The rules keep the last table until there is another.
B=$(dirname "$(dirname "$(dirname "$program")")")
refused() {
    mkdir -p "$B/bench" && touch "$B/bench/kept"
    ! make -s bench-quick B="$B" "$@" && [ -e "$B/bench/kept" ] && [ ! -e "$B/bench.new" ]
    code=$?
    rm -f "$B/bench/kept"
    return $code
}
ok "an unknown figure keeps the last results" refused ONLY=nonsense
ok "so does a seed that is none" refused SEED=x
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
