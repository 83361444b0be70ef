# repair, and what verify says of the same stores.
load ../common

# Sums of all files but LMDB's lock.
tree() {
    find "$1" -type f ! -name '*-lock' -exec sha256sum {} + | sort
    find "$1" | sort
}

@test "a good store: nothing to do" {
    make_store
    tree store >before
    ok "$TAMIS" repair store
    [ "$output" = "nothing to do: 2 segments" ]
    tree store | cmp - before
}

@test "a damaged filter is set aside, its segment stays" {
    make_store
    f=$(filter_of one)
    flip "$f" 5000
    run --separate-stderr "$TAMIS" verify store
    [ "$status" -eq 3 ]
    tree store >before
    fails 3 "damage was found$" "$TAMIS" repair store --dry-run
    prints $'^quarantined\tone\tfilters/[0-9a-f]{32}.tamis\t1 of 1 pages fail'
    prints 'would be: 0 finished, 0 rebuilt, 1 quarantined, 0 swept; 2 segments'
    tree store | cmp - before
    fails 3 "damage was found, and dealt with" "$TAMIS" repair store
    prints $'^quarantined\tone\t'
    prints 'repaired: 0 finished, 0 rebuilt, 1 quarantined, 0 swept; 2 segments'
    [ ! -e "$f" ]
    [ -e "store/quarantine/${f##*/}" ]
    ok "$TAMIS" verify store
    prints $'one\tbare'
    ok "$TAMIS" probe store nope
    prints $'nope\tone\tNO_FILTER'
    ok "$TAMIS" repair store
    [ "$output" = "nothing to do: 2 segments" ]
    seq 3 | ok "$TAMIS" build store one --replaces one
    ok "$TAMIS" probe store nope
    prints $'nope\t-\tABSENT'
}

@test "a lost filter is damage that repair can't mend" {
    make_store
    rm "$(filter_of one)"
    for more in "" --dry-run; do
        fails 3 ": 1 missing filter is left as noted: build the segment anew" \
            "$TAMIS" repair store $more
        prints $'^noted\tone\tfilters/.*missing\nnothing that repair can mend: 2 segments$'
    done
    # A growing filter stays where it is; its writer condemns the page.
    seq 2000 | "$TAMIS" grow store g
    dd if=/dev/zero of="$(filter_of g)" bs=4096 seek=8 count=1 conv=notrunc status=none
    fails 3 ": 2 damaged or missing filters are left as noted: build the segments anew" \
        "$TAMIS" repair store
    "$TAMIS" drop store one
    fails 3 ": 1 damaged filter is left as noted: build the segment anew" "$TAMIS" repair store
    prints 'nothing that repair can mend: 2 segments$'
}

@test "orphans: verify tells, repair sets aside" {
    make_store
    f=$(filter_of one)
    cp "$f" keep
    ok "$TAMIS" drop store one
    cp keep "$f"
    ok "$TAMIS" verify store
    prints $'-\torphan\tfilters/.*: no record names it'
    ok "$TAMIS" verify store --json
    prints '"orphans": \['
    prints '"what": "no record names it"'
    ok "$TAMIS" verify store two
    [ "${#lines[@]}" -eq 1 ]
    ok "$TAMIS" repair store
    prints $'^quarantined\t-\tfilters/'
    [ ! -e "$f" ]
    [ -e "store/quarantine/${f##*/}" ]
}

@test "a directory among the filters is to be removed by hand, and hinders nothing" {
    make_store
    echo x | "$TAMIS" grow store three -q
    name=00000000000000000000000000000000
    for entry in $name.tamis $name.dead $name.tamis.01234567.tmp; do
        mkdir "store/filters/$entry"
        : >"store/filters/$entry/x"
        : >store/filters/$name.tamis.89abcdef.tmp
        ok "$TAMIS" verify store
        prints $'-\torphan\tfilters/'"$entry: not a regular file: remove it by hand"
        for dry in --dry-run ""; do
            # shellcheck disable=SC2086
            fails 3 "^tamis: store: 1 name in filters/ is no regular file: remove it by hand$" \
                "$TAMIS" repair store $dry
            prints $'noted\t-\tfilters/'"$entry"$'\tnot a regular file: remove it by hand\n'
            prints $'swept\t-\tfilters/'"$name.tamis.89abcdef.tmp"
        done
        [ ! -e store/filters/$name.tamis.89abcdef.tmp ]
        fails 3 "1 name in filters/" "$TAMIS" repair store
        prints "nothing that repair can mend: 3 segments"
        rm store/catalog.lmdb
        run -3 --separate-stderr "$TAMIS" repair store
        prints $'noted\t-\tfilters/'"$entry"$'\tnot a regular file: remove it by hand\n'
        rm -r "store/filters/$entry"
        ok "$TAMIS" repair store
        ok "$TAMIS" repair store --confirm
    done
    # Only such a name counts, and the help says so.
    mkdir store/filters/straydir
    ok "$TAMIS" repair store
    prints 'straydir.left alone: not a name of tamis'
    for c in "repair:a directory or link named like a filter" "verify:listed as orphan, which is no damage"; do
        [[ $("$TAMIS" help "${c%%:*}" | tr -s ' \n' ' ') == *"${c#*:}"* ]] || explain "$c"
    done
}

@test "a lost catalog is made anew, and believed once it is confirmed" {
    make_store
    seq 10 19 | ok "$TAMIS" grow store g
    rm store/catalog.lmdb
    fails 5 "catalog.lmdb is missing: .*tamis repair" "$TAMIS" ls store
    tree store >before
    fails 3 "damage was found$" "$TAMIS" repair store -n
    prints $'^rebuilt\t-\tcatalog.lmdb\tmade anew'
    tree store | cmp - before
    fails 3 "damage was found, and dealt with" "$TAMIS" repair store
    prints '1 rebuilt.*; 3 segments'
    prints 'may be incomplete.*--confirm'
    ok "$TAMIS" probe store a 12 nope
    prints $'a\tone\tMISMATCH'
    prints $'12\tg\tMISMATCH'
    prints $'nope\tone\tMISMATCH'
    prints $'nope\t-\tUNKNOWN_SEGMENT'
    seq 10 21 >keys
    fails 3 "2 keys are not in the filter" "$TAMIS" verify store g --against keys
    ok "$TAMIS" repair store
    prints 'nothing to do: 3 segments'
    ok "$TAMIS" repair store --confirm
    [ -z "$output" ]
    ok "$TAMIS" probe store nope
    prints $'nope\t-\tABSENT'
    ok "$TAMIS" repair store
    [ "$output" = "nothing to do: 3 segments" ]
}

@test "filters of two stores: which is it?" {
    make_store
    "$TAMIS" init other
    echo x | "$TAMIS" build other one
    uuid=$("$TAMIS" stat store --json | sed -n 's/.*"uuid": "\(.*\)".*/\1/p')
    cp other/filters/* store/filters
    rm store/catalog.lmdb
    fails 3 "filters are of several stores.*--uuid" "$TAMIS" repair store
    fails 2 "32 hex digits" "$TAMIS" repair store --uuid 12
    fails 3 "damage was found, and" "$TAMIS" repair store --uuid "$uuid"
    prints $'quarantined\tone\t.*another '
    prints '; 2 segments'
    ok "$TAMIS" repair store --confirm
    ok "$TAMIS" probe store a
    prints $'a\tone\tHIT'
}

@test "--uuid of another store" {
    make_store
    "$TAMIS" init other
    echo x | "$TAMIS" build other one
    uuid=$("$TAMIS" stat store --json | jq -r .uuid)
    third=$("$TAMIS" stat other --json | jq -r .uuid)
    wrong=00112233445566778899aabbccddeeff
    for more in "" --dry-run; do
        fails 3 "the catalog is of store $uuid, and not of $wrong: " "$TAMIS" repair store --uuid $wrong $more
    done
    ok "$TAMIS" repair store --uuid "$uuid"
    rm store/catalog.lmdb
    fails 3 "no filter is of store $wrong: these are of $uuid: " "$TAMIS" repair store --uuid $wrong
    cp other/filters/* store/filters
    fails 3 "no filter is of store $wrong: these are of ($uuid|$third) and others: " "$TAMIS" repair store --uuid $wrong
    [ ! -e store/catalog.lmdb ]
}

@test "nothing to repair, nothing to rebuild from" {
    fails 5 "no such directory" "$TAMIS" repair none
    mkdir dir
    fails 5 "no store in this directory" "$TAMIS" repair dir
    [ -z "$(ls dir)" ]
    "$TAMIS" init store
    rm store/catalog.lmdb
    fails 5 "no filter says which store" "$TAMIS" repair store
    touch file
    fails 3 "not a directory" "$TAMIS" repair file
    fails 2 "too few" "$TAMIS" repair
    fails 2 "confirm does nothing else" "$TAMIS" repair store --confirm --dry-run
}

@test "--json" {
    make_store
    flip "$(filter_of one)" 5000
    fails 3 "damage was found$" "$TAMIS" repair store --dry-run --json
    prints '"action": "quarantined"'
    prints '"segment": "one"'
    prints '"dry_run": true'
    prints '"quarantined": 1'
    prints '"catalog_rebuilt": false'
    prints '"complete": true'
    prints '"failed": false'
}

@test "--json of a repair that fails says what was done, and nothing that it does not know" {
    "$TAMIS" init store
    seq 50000 >keys
    "$TAMIS" build store a /dev/null --empty --list -q
    "$TAMIS" build store b keys --list -q
    for s in a b; do rm "$(filter_of $s)"; done
    limited() { (ulimit -f "$1" && trap '' XFSZ && "$TAMIS" repair store --json); }
    fails 4 "File too large" limited 48
    [ "$(jq -c '[.failed, (.findings | map(.segment)), .rebuilt]' <<<"$output")" = '[true,["a"],1]' ]
    [ "$(jq -c '[.segments, .damaged, .unread, .complete]' <<<"$output")" = '[null,null,null,null]' ]
    fails 3 "dealt with" "$TAMIS" repair store --json
    [ "$(jq -c '[.failed, .rebuilt, .segments, .complete]' <<<"$output")" = '[false,1,2,true]' ]
}

@test "a list that lacks a segment of quarantine is not confirmed" {
    make_store
    f=$(filter_of one)
    flip "$f" 130 # its name
    rm store/catalog.lmdb
    fails 3 "damage was found, and dealt with" "$TAMIS" repair store
    prints '; 1 segment'
    fails 3 "not confirmed: 1 filter in quarantine/ .*--bare.*--force" \
        "$TAMIS" repair store --confirm
    prints $'^noted\t-\tquarantine/.*\tnobody can tell which segment it is of$'
    ok "$TAMIS" probe store a
    prints $'a\t-\tUNKNOWN_SEGMENT'
    cp -r store copy
    ok "$TAMIS" repair store --confirm --force
    prints $'^noted\t-\tquarantine/'
    # Confirmed, it stays so; what lies there is named all the same.
    fails 3 "confirmed already: 1 filter in quarantine/ may be of segments that are not listed" \
        "$TAMIS" repair store --confirm
    prints $'^noted\t-\tquarantine/.*\nthe list is complete already: nothing to confirm$'
    ok "$TAMIS" repair store --confirm --force
    fails 3 "confirmed already" "$TAMIS" repair store --confirm --json
    [ "$(jq -c '[.confirmed, (.findings | length)]' <<<"$output")" = '[true,1]' ]
    ok "$TAMIS" probe store a
    prints ABSENT
    ok "$TAMIS" build copy one --bare
    rm "copy/quarantine/${f##*/}"
    ok "$TAMIS" repair copy --confirm
    ok "$TAMIS" repair copy --confirm
    [ "$output" = "the list is complete already: nothing to confirm" ]
    ok "$TAMIS" probe copy a
    prints $'a\tone\tNO_FILTER'
    fails 2 "force is for --confirm" "$TAMIS" repair store --force
}

@test "a segment whose filter is in quarantine is listed again" {
    make_store
    f=$(filter_of one)
    flip "$f" 5000
    fails 3 "dealt with" "$TAMIS" repair store
    rm store/catalog.lmdb
    fails 3 "dealt with" "$TAMIS" repair store
    prints $'rebuilt\tone\tquarantine/.*: listed without one'
    ok "$TAMIS" repair store --confirm
    ok "$TAMIS" probe store a
    prints $'a\tone\tNO_FILTER'
    # A segment that is gone: out of the list, and out of quarantine.
    rm store/catalog.lmdb
    fails 3 "dealt with" "$TAMIS" repair store
    ok "$TAMIS" drop store one
    fails 3 "not confirmed: 1 filter" "$TAMIS" repair store --confirm
    prints $'^noted\tone\tquarantine/.*\tits segment is not listed$'
    rm "store/quarantine/${f##*/}"
    ok "$TAMIS" repair store --confirm
    ok "$TAMIS" probe store a
    prints ABSENT
}

# Four segments of one pack, of which the page at 5000 has rows of one band only.
@test "a damaged pack is named as such, and a segment by its own name" {
    "$TAMIS" init store --seed 0123456789abcdef
    for i in 1 2 3 4; do seq $((i * 1000)) $((i * 1000 + 200)) >s$i.keys; done
    "$TAMIS" build store --each s*.keys --strip .keys --pack -q
    f=$("$TAMIS" ls store s1 --json | jq -r '.[0].file')
    fails 2 "^tamis: store: segment 's3': 7 does not divide" "$TAMIS" fold store x s3 --by 7
    poke "store/$f" 5000 '\x55\x55\x55\x55'
    fails 3 "^tamis: store: 1 damaged pack is left as noted: 'tamis verify' says which" "$TAMIS" repair store
    [[ $output == *$'noted\t-\t'"$f"$'\tthe pack of 4 segments: 1 of '* ]] || explain "the pack and its size"
    fails 3 "copied, but 1 file is damaged" "$TAMIS" backup store copy
    [[ $output == *$'\t-\t'"$f"$'\tthe pack of 4 segments: pages fail'* ]] || explain "the pack and its size"
    for what in "union store x s3 s2" "compare store s3 s2" "fold store x s3 --by 1"; do
        # shellcheck disable=SC2086
        fails 3 "^tamis: store: segment 's3': a page of the column fails" "$TAMIS" $what
    done
    # A filter of its own beside it.
    seq 100 | "$TAMIS" build store own -q
    rm "store/$("$TAMIS" ls store own --json | jq -r '.[0].file')"
    fails 3 ": 1 damaged or missing filter and 1 pack are left as noted" "$TAMIS" repair store
    rm "store/$f"
    fails 3 ": 1 missing filter and 1 pack are left as noted" "$TAMIS" repair store
}

@test "tombstones whose pack is away are set aside, and it is told" {
    "$TAMIS" init store
    for i in 1 2 3 4; do seq "$i"000 "$i"200 | "$TAMIS" build store "s$i"; done
    "$TAMIS" pack store
    seq 9 | "$TAMIS" build store loose
    dead=$(basename store/filters/*.dead)
    mv "store/filters/${dead%.dead}.tamis" away
    rm store/catalog.lmdb*
    run "$TAMIS" repair store
    echo "$output"
    [[ $output == *"$dead"*"the pack of these tombstones is not there"* ]]
    [ -f "store/quarantine/$dead" ]
    [ ! -e "store/filters/$dead" ]
    fails 3 "not confirmed: 1 filter in quarantine" "$TAMIS" repair store --confirm
    "$TAMIS" repair store --confirm --force
}
