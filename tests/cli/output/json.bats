# tamis-json(5) has every field that --json prints, and no other, command by command.
load ../common

MAN=$BATS_TEST_DIRNAME/../../../tools/man

# The fields that a section of the page has: FIELD<TAB>TYPE.
documented() {
    awk -v section="$1" -f "$MAN/fields.awk" "$MAN/json.fields" | cut -f1,2
}

# shows SECTION COMMAND...: keeps what it prints; a status like 3 is no matter here.
shows() {
    local section=$1
    shift
    "$TAMIS" "$@" --json >out 2>err || :
    jq -e . out >/dev/null || { cat out err; return 1; }
    mkdir -p runs
    cat out >>"runs/$section"
}

# The paths of all values, and what they may be called.
FIELDS='paths as $p | [
    ($p | map(if type == "number" then "[]" else "." + . end) | join("") | ltrimstr(".")),
    (getpath($p) | if type == "number" then if . == floor then "count|real|any" else "real|any" end
        elif type == "boolean" then "flag" elif type == "null" then "real"
        elif type != "string" then type
        elif test("^[0-9]+$") then "count|text|word|hex|any"
        elif test("^[0-9a-f]+$") then "hex|text|word|any" else "text|word|any" end)] | @tsv'

# agrees SECTION [BASE]: the runs and the page; of BASE are the fields that it has, too.
agrees() {
    { documented "$1"; [ -z "${2-}" ] || documented "$2"; } | sort -u >page
    [ -s page ]
    jq -r "$FIELDS" "runs/$1" | sort -u >found
    cut -f1 page | sort -u >fields.page
    cut -f1 found | sort -u >fields.found
    diff fields.page fields.found || { echo "$1: < page, > output"; return 1; }
    while IFS=$'\t' read -r field types; do
        type=$(awk -F'\t' -v f="$field" '$1 == f { print $2 }' page)
        [[ "|$types|" == *"|$type|"* ]] || { echo "$1: $field: $type, and it is $types"; return 1; }
    done <found
}

# A store with a segment of each kind, one of them damaged, one lost.
make_kinds() {
    make_store
    make_file
    printf 'a\nb\n' | "$TAMIS" build store bound --bind 0102 --list
    printf 'x' | "$TAMIS" grow store growing --watermark 7
    "$TAMIS" build store bare --bare
    seq 50 | "$TAMIS" build store packed
    "$TAMIS" pack store packed
    seq 5000 | "$TAMIS" build store bad
    flip "$(filter_of bad)" 5000
    rm "$(filter_of two)"
    echo a >k
    echo nope >other
}

@test "build, grow, drop" {
    "$TAMIS" init store
    seq 100 >k
    shows "tamis build" build store one k
    shows "tamis build" build store bare --bare
    shows "tamis grow" grow store g k
    shows "tamis file build" file build f.tamis k
    shows "tamis drop" drop store one bare g
    for c in build grow "file build" drop; do agrees "tamis $c"; done
}

@test "pack, unpack" {
    "$TAMIS" init store
    for s in one two; do seq 100 | "$TAMIS" build store $s; done
    "$TAMIS" build store bare --bare
    shows "tamis pack" pack store --dry-run
    shows "tamis pack" pack store
    shows "tamis pack" pack store
    shows "tamis unpack" unpack store one
    for c in pack unpack; do agrees "tamis $c"; done
}

@test "probe" {
    make_kinds
    shows "tamis probe" probe store a nope
    shows "tamis probe" probe store --hex 61 62
    shows "tamis probe" probe store --explain a nope
    shows "tamis probe --count" probe store a --count
    shows "tamis file probe" file probe f.tamis 5 nope
    shows "tamis file probe" file probe f.tamis --hex 35
    shows "tamis file probe" file probe f.tamis --explain 5 nope
    shows "tamis file probe --count" file probe f.tamis 5 --count
    for s in "tamis probe" "tamis probe --count" "tamis file probe" "tamis file probe --count"; do
        agrees "$s"
    done
}

@test "ls and stat" {
    make_kinds
    shows "tamis ls" ls store
    agrees "tamis ls"
    shows "tamis stat" stat store one growing bare bound packed
    agrees "tamis stat"
    shows "tamis stat --residency" stat store one bound growing two bare packed --residency
    agrees "tamis stat --residency" "tamis stat"
}

@test "verify" {
    make_kinds
    : >store/filters/00112233445566778899aabbccddeeff.tamis
    shows "tamis verify" verify store
    shows "tamis verify" verify store one --against other
    echo 78797a >hexes
    shows "tamis verify" verify store one --against hexes --hex
    shows "tamis verify" verify store --against-list
    f=store/$("$TAMIS" ls store packed --json | jq -r '.[0].file')
    flip "$f" $(($(stat -c %s "$f") - 4086))
    shows "tamis verify" verify store packed
    agrees "tamis verify"
    shows "tamis file verify" file verify f.tamis --against other
    shows "tamis file verify" file verify f.tamis --against hexes --hex
    flip f.tamis 5000
    shows "tamis file verify" file verify f.tamis --against other
    agrees "tamis file verify"
}

@test "repair and backup" {
    make_kinds
    file=$(filter_of one)
    rm "$file" && mkdir "$file"
    shows "tamis backup" backup store copy
    shows "tamis repair" repair store --dry-run
    agrees "tamis backup"
    agrees "tamis repair"
}

@test "repair --confirm" {
    make_store
    "$TAMIS" build store three <<<x
    one=$(filter_of one)
    flip "$one" 130 # its name
    flip "$(filter_of two)" 5000
    rm store/catalog.lmdb
    "$TAMIS" repair store >/dev/null 2>&1 || "$TAMIS" drop store two
    shows "tamis repair --confirm" repair store --confirm
    [ "$(jq -c '[.confirmed, (.findings | length)]' out)" = '[false,2]' ]
    shows "tamis repair --confirm" repair store --confirm --force
    [ "$(jq .confirmed out)" = true ]
    agrees "tamis repair --confirm"
}

@test "file show" {
    make_file
    shows "tamis file show --residency" file show f.tamis --residency
    cp runs/* "runs/tamis file show"
    flip f.tamis 100
    shows "tamis file show" file show f.tamis
    jq 'del(.page_bytes, .pages, .resident)' "runs/tamis file show" >x
    mv x "runs/tamis file show"
    agrees "tamis file show"
    jq '. + {error: "x"}' "runs/tamis file show --residency" >x
    mv x "runs/tamis file show --residency"
    agrees "tamis file show --residency" "tamis file show"
}

@test "union, intersect, fold, compare" {
    make_store
    "$TAMIS" union store both one two
    "$TAMIS" file build a <<<x --seed 0000000000000001
    for c in union intersect fold compare; do
        case $c in
        fold) shows "tamis fold" fold store fold one --by 1 ;;
        compare) shows "tamis compare" compare store one two ;;
        *) shows "tamis $c" $c store $c one two ;;
        esac
        agrees "tamis $c"
        case $c in
        fold) shows "tamis file fold" file fold fold a --by 1 ;;
        compare) shows "tamis file compare" file compare a a ;;
        *) shows "tamis file $c" file $c $c a a ;;
        esac
        agrees "tamis file $c"
    done
    shows "tamis file estimate" file estimate a
    agrees "tamis file estimate"
}

@test "plan" {
    shows "tamis plan" plan --keys 10M --fpr 1%
    shows "tamis plan --layout classic" plan --layout classic --bytes 1000 --fpr 1%
    shows "tamis plan --growth" plan --growth
    shows "tamis plan --growth" plan --growth -s 1.25 --keys 256T
    for s in "tamis plan" "tamis plan --layout classic" "tamis plan --growth"; do agrees "$s"; done
    make_store
    rm "$(filter_of two)"
    shows "tamis plan STORE" plan store --bytes 100K
    echo 1000 >sizes
    shows "tamis plan STORE" plan --sizes sizes --bytes 0
    agrees "tamis plan STORE"
}

@test "every command that takes --json is on the page, and no other" {
    { "$TAMIS" help; "$TAMIS" help file; } | sed -n 's/^  tamis \(file [a-z]\+\|[a-z]\+\) .*/\1/p' | while read -r c; do
        # shellcheck disable=SC2086
        if "$TAMIS" help $c | grep -q -e '--json'; then echo "## tamis $c"; fi
    done | sort >take
    grep -x '## tamis \(file \)\?[a-z]*' "$MAN/tamis-json.5.scd" | sort | diff - take
}

@test "words of the page are those that there are" {
    make_kinds
    for word in sealed growing bare; do
        "$TAMIS" ls store --json | grep -q "\"state\": \"$word\""
        grep -q "\*$word\*" "$MAN/json.fields"
    done
    "$TAMIS" probe store a nope --json | jq -r '.answer, .candidates[].reason' | sort -u >words
    "$TAMIS" verify store --json 2>/dev/null | jq -r '.segments[].result' | sort -u >>words
    [ "$(wc -l <words)" -ge 8 ]
    while read -r word; do grep -q "\*$word\*" "$MAN/json.fields" || { echo "$word"; return 1; }; done <words
}
