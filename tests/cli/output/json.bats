# tamis-json(5) has every field that --json prints, and no other, command by command.
load ../common

MAN=$BATS_TEST_DIRNAME/../../../tools/man

# The fields that a section of the page has: FIELD<TAB>TYPE.
documented() {
    awk -v section="$1" -f "$MAN/fields.awk" "$MAN/json.fields" | cut -f1,2
}

# shows COMMAND...: keeps what it prints for the section of the page that is named after the
# command, or $section; a status like 3 is no matter here.
shows() {
    local of="tamis $1"
    [ "$1" != file ] || of+=" $2"
    tamis "$@" --json >out 2>err || :
    jq -e . out >/dev/null || { cat out err; return 1; }
    mkdir -p runs
    cat out >>"runs/${section:-$of}"
}

# The paths of all values, and what they may be called.
FIELDS='paths as $p | [
    ($p | map(if type == "number" then "[]" else "." + . end) | join("") | ltrimstr(".")),
    (getpath($p) | if type == "number" then if . == floor then "count|real|any" else "real|any" end
        elif type == "boolean" then "flag" elif type == "null" then "real"
        elif type != "string" then type
        elif test("^[0-9]+$") then "count|text|word|hex|any"
        elif test("^[0-9a-f]+$") then "hex|text|word|any" else "text|word|any" end)] | @tsv'

# agree: each section of which something ran has the fields that were printed, of these types,
# and no other. A section of --residency has those of its command, too.
agree() {
    local section
    for section in runs/*; do
        section=${section#runs/}
        { documented "$section"; [[ $section != *--residency ]] || documented "${section% *}"; } | sort -u >page
        [ -s page ]
        jq -r "$FIELDS" "runs/$section" | sort -u >found
        diff <(cut -f1 page | sort -u) <(cut -f1 found | sort -u) || { echo "$section: < page, > output"; return 1; }
        awk -F'\t' 'NR == FNR { type[$1] = $2; next }
            !index("|" $2 "|", "|" type[$1] "|") { print $1 ": " type[$1] ", and it is " $2; bad = 1 }
            END { exit bad }' page found || { echo "$section"; return 1; }
    done
}

# A store with a segment of each kind, one of them damaged, one lost.
make_kinds() {
    make_store
    make_file
    printf 'a\nb\n' | tamis build store bound --bind 0102 --list
    printf 'x' | tamis grow store growing --watermark 7
    tamis build store bare --bare
    seq 50 | tamis build store packed
    tamis pack store packed
    seq 5000 | tamis build store bad
    flip "$(filter_of bad)" 5000
    rm "$(filter_of two)"
    echo a >k
    echo nope >other
}

@test "build, grow, drop" {
    tamis init store
    seq 100 >k
    shows build store one k
    shows build store bare --bare
    shows grow store g k
    shows file build f.tamis k
    shows drop store one bare g
    agree
}

@test "pack, unpack" {
    tamis init store
    for s in one two; do seq 100 | tamis build store $s; done
    tamis build store bare --bare
    shows pack store --dry-run
    shows pack store
    shows pack store
    shows unpack store one
    agree
}

@test "probe" {
    make_kinds
    shows probe store a nope
    shows probe store --hex 61 62
    shows probe store --explain a nope
    section="tamis probe --count" shows probe store a --count
    shows file probe f.tamis 5 nope
    shows file probe f.tamis --hex 35
    shows file probe f.tamis --explain 5 nope
    section="tamis file probe --count" shows file probe f.tamis 5 --count
    agree
}

@test "ls and stat" {
    make_kinds
    shows ls store
    shows stat store one growing bare bound packed
    section="tamis stat --residency" shows stat store one bound growing two bare packed --residency
    agree
}

@test "verify" {
    make_kinds
    : >store/filters/00112233445566778899aabbccddeeff.tamis
    shows verify store
    shows verify store one --against other
    echo 78797a >hexes
    shows verify store one --against hexes --hex
    shows verify store --against-list
    f=store/$(tamis ls store packed --json | jq -r '.[0].file')
    flip "$f" 4100
    shows verify store packed
    shows file verify f.tamis --against other
    shows file verify f.tamis --against hexes --hex
    flip f.tamis 5000
    shows file verify f.tamis --against other
    agree
}

@test "repair and backup" {
    make_kinds
    file=$(filter_of one)
    rm "$file" && mkdir "$file"
    shows backup store copy
    shows repair store --dry-run
    agree
}

@test "repair --confirm" {
    make_store
    tamis build store three <<<x
    one=$(filter_of one)
    flip "$one" 130 # its name
    flip "$(filter_of two)" 5000
    rm store/catalog.lmdb
    tamis repair store >/dev/null 2>&1 || tamis drop store two
    section="tamis repair --confirm"
    shows repair store --confirm
    [ "$(jq -c '[.confirmed, (.findings | length)]' out)" = '[false,2]' ]
    shows repair store --confirm --force
    [ "$(jq .confirmed out)" = true ]
    agree
}

@test "file show" {
    make_file
    section="tamis file show --residency" shows file show f.tamis --residency
    cp runs/* "runs/tamis file show"
    flip f.tamis 100
    shows file show f.tamis
    jq 'del(.page_bytes, .pages, .resident)' "runs/tamis file show" >x
    mv x "runs/tamis file show"
    jq '. + {error: "x"}' "runs/tamis file show --residency" >x
    mv x "runs/tamis file show --residency"
    agree
}

@test "union, intersect, fold, compare" {
    make_store
    tamis union store both one two
    tamis file build a <<<x --seed 0000000000000001
    for c in union intersect; do
        shows $c store $c one two
        shows file $c $c a a
    done
    shows fold store fold one --by 1
    shows file fold fold a --by 1
    shows compare store one two
    shows file compare a a
    shows file estimate a
    agree
}

@test "plan" {
    shows plan --keys 10M --fpr 1%
    section="tamis plan --growth"
    shows plan --growth
    shows plan --growth -s 1.25 --keys 256T
    make_store
    rm "$(filter_of two)"
    section="tamis plan STORE"
    shows plan store --bytes 100K
    echo 1000 >sizes
    shows plan --sizes sizes --bytes 0
    agree
}

@test "every command that takes --json is on the page, and no other" {
    { tamis help; tamis help file; } | sed -n 's/^  tamis \(file [a-z]\+\|[a-z]\+\) .*/\1/p' | while read -r c; do
        if tamis help $c | grep -q -e '--json'; then echo "section tamis $c"; fi
    done | sort >take
    grep -x 'section tamis \(file \)\?[a-z]*' "$MAN/json.fields" | sort | diff - take
}

@test "words of the page are those that there are" {
    make_kinds
    for word in sealed growing bare; do
        tamis ls store --json | grep -q "\"state\": \"$word\""
        grep -q "\*$word\*" "$MAN/json.fields"
    done
    tamis probe store a nope --json | jq -r '.answer, .candidates[].reason' | sort -u >words
    tamis verify store --json 2>/dev/null | jq -r '.segments[].result' | sort -u >>words
    [ "$(wc -l <words)" -ge 8 ]
    while read -r word; do grep -q "\*$word\*" "$MAN/json.fields" || { echo "$word"; return 1; }; done <words
}
