# repair, and what verify says of the same stores.
load ../common

# Sums of all files but LMDB's lock.
tree() {
    find "$1" -type f ! -name '*-lock' -exec sha256sum {} + | sort
    find "$1" | sort
}

@test "a damaged filter is set aside, its segment stays" {
    make_store
    f=$(filter_of one)
    flip "$f" 5000
    exits 3 tamis verify store
    tree store >before
    fails 3 "damage was found$" tamis repair store --dry-run
    prints $'^quarantined\tone\tfilters/[0-9a-f]{32}.tamis\t1 of 1 pages fail'
    prints 'would be: 0 finished, 0 rebuilt, 1 quarantined, 0 swept; 2 segments'
    fails 3 "damage was found$" tamis repair store --dry-run --json
    [ "$(jq -c '[.dry_run, .quarantined, .catalog_rebuilt, .complete, .failed, .findings[].segment]' <<<"$output")" = \
        '[true,1,false,true,false,"one"]' ]
    tree store | cmp - before
    fails 3 "damage was found, and dealt with" tamis repair store
    prints $'^quarantined\tone\t'
    prints 'repaired: 0 finished, 0 rebuilt, 1 quarantined, 0 swept; 2 segments'
    [ ! -e "$f" ]
    [ -e "store/quarantine/${f##*/}" ]
    tells $'one\tbare' tamis verify store
    tells $'nope\tone\tNO_FILTER' tamis probe store nope
    tree store >before
    gives "nothing to do: 2 segments" tamis repair store
    tree store | cmp - before
    seq 3 | ok tamis build store one --replaces one
    tells $'nope\t-\tABSENT' tamis probe store nope
}

@test "a lost filter is damage that repair can't mend" {
    make_store
    rm "$(filter_of one)"
    for more in "" --dry-run; do
        fails 3 ": 1 file left as noted, damaged or missing: build these segments anew" tamis repair store $more
        prints $'^noted\tone\tfilters/.*missing\nnothing that repair can mend: 2 segments$'
    done
    # A growing filter stays where it is; its writer condemns the page.
    seq 2000 | tamis grow store g
    dd if=/dev/zero of="$(filter_of g)" bs=4096 seek=8 count=1 conv=notrunc status=none
    fails 3 ": 2 files left as noted, damaged or missing: build these segments anew" tamis repair store
    tamis drop store one
    fails 3 ": 1 file left as noted, damaged or missing: build these segments anew" tamis repair store
    prints 'nothing that repair can mend: 2 segments$'
}

@test "orphans: verify tells, repair sets aside" {
    make_store
    f=$(filter_of one)
    cp "$f" keep
    ok tamis drop store one
    cp keep "$f"
    tells $'-\torphan\tfilters/.*: no record names it' tamis verify store
    tells '"orphans": \[' tamis verify store --json
    prints '"what": "no record names it"'
    ok tamis verify store two
    [ "${#lines[@]}" -eq 1 ]
    tells $'^quarantined\t-\tfilters/' tamis repair store
    [ ! -e "$f" ]
    [ -e "store/quarantine/${f##*/}" ]
    # After an older catalog a sweep is told; after another store's there is none.
    cp store/catalog.lmdb old
    ok tamis build store three /dev/null --empty
    cp old store/catalog.lmdb
    exits 0 tamis pack store --dry-run
    exits 5 tamis drop store typo
    [[ $stderr == *"store/filters: files of no segment removed: 1; "*"repair first"*"no segment 'typo'"* ]] ||
        explain "both lines"
    ok tamis build store four /dev/null --empty
    tamis init other
    cp other/catalog.lmdb store
    ok tamis build store five /dev/null --empty
    tells 'no record names it, and it is of another store' tamis repair store
    [ "$(ls store/quarantine | wc -l)" -eq 3 ]
}

@test "a directory among the filters is to be removed by hand, and hinders nothing" {
    make_store
    echo x | tamis grow store three -q
    name=00000000000000000000000000000000
    for entry in $name.tamis $name.dead $name.tamis.01234567.tmp; do
        mkdir "store/filters/$entry"
        : >"store/filters/$entry/x"
        : >store/filters/$name.tamis.89abcdef.tmp
        tells $'-\torphan\tfilters/'"$entry: not a regular file: remove it by hand" tamis verify store
        for dry in --dry-run ""; do
            fails 3 "^tamis: store: 1 name in filters/ is no regular file: remove it by hand$" \
                tamis repair store $dry
            prints $'noted\t-\tfilters/'"$entry"$'\tnot a regular file: remove it by hand\n'
            prints $'swept\t-\tfilters/'"$name.tamis.89abcdef.tmp"
        done
        [ ! -e store/filters/$name.tamis.89abcdef.tmp ]
        fails 3 "1 name in filters/" tamis repair store
        prints "nothing that repair can mend: 3 segments"
        rm store/catalog.lmdb
        exits 3 tamis repair store
        prints $'noted\t-\tfilters/'"$entry"$'\tnot a regular file: remove it by hand\n'
        rm -r "store/filters/$entry"
        ok tamis repair store
        ok tamis repair store --confirm
    done
    # Only such a name counts, and the help says so.
    mkdir store/filters/straydir
    tells 'straydir.left alone: not a name of tamis' tamis repair store
    for c in "repair:a directory or link named like a filter" "verify:listed as orphan, which is no damage"; do
        [[ $(tamis help "${c%%:*}" | tr -s ' \n' ' ') == *"${c#*:}"* ]] || explain "$c"
    done
}

@test "a lost catalog is made anew, and believed once it is confirmed" {
    make_store
    seq 10 19 | ok tamis grow store g
    rm store/catalog.lmdb
    fails 5 "catalog.lmdb is missing: .*tamis repair" tamis ls store
    tree store >before
    fails 3 "damage was found$" tamis repair store -n
    prints $'^rebuilt\t-\tcatalog.lmdb\tmade anew'
    tree store | cmp - before
    fails 3 "damage was found, and dealt with" tamis repair store
    prints '1 rebuilt.*; 3 segments'
    prints 'may be incomplete.*--confirm'
    tells $'a\tone\tMISMATCH' tamis probe store a 12 nope
    prints $'12\tg\tMISMATCH'
    prints $'nope\tone\tMISMATCH'
    prints $'nope\t-\tUNKNOWN_SEGMENT'
    seq 10 21 >keys
    fails 3 "2 keys not in the filters" tamis verify store g --against keys
    tells 'nothing to do: 3 segments' tamis repair store
    gives '' tamis repair store --confirm
    tells $'nope\t-\tABSENT' tamis probe store nope
    gives "nothing to do: 3 segments" tamis repair store
}

@test "filters of two stores: --uuid says which it is" {
    make_store
    tamis init other
    echo x | tamis build other one
    uuid=$(tamis stat store --json | jq -r .uuid)
    third=$(tamis stat other --json | jq -r .uuid)
    wrong=00112233445566778899aabbccddeeff
    for more in "" --dry-run; do
        fails 3 "the catalog is of store $uuid, and not of $wrong: " tamis repair store --uuid $wrong $more
    done
    ok tamis repair store --uuid "$uuid"
    rm store/catalog.lmdb
    fails 3 "no filter is of store $wrong: these are of $uuid: " tamis repair store --uuid $wrong
    cp other/filters/* store/filters
    fails 3 "no filter is of store $wrong: these are of ($uuid|$third) and others: " tamis repair store --uuid $wrong
    [ ! -e store/catalog.lmdb ]
    fails 3 "filters are of several stores, say ($uuid and $third|$third and $uuid): --uuid" tamis repair store
    fails 2 "32 hex digits" tamis repair store --uuid 12
    fails 3 "damage was found, and" tamis repair store --uuid "$uuid"
    prints $'quarantined\tone\t.*another '
    prints '; 2 segments'
    ok tamis repair store --confirm
    tells $'a\tone\tHIT' tamis probe store a
}

@test "nothing to repair, nothing to rebuild from" {
    fails 5 "no such directory" tamis repair none
    mkdir dir
    fails 5 "no store in this directory" tamis repair dir
    [ -z "$(ls dir)" ]
    tamis init store
    rm store/catalog.lmdb
    fails 5 "no filter says which store" tamis repair store
    touch file
    fails 3 "not a directory" tamis repair file
    fails 2 "too few" tamis repair
    fails 2 "confirm does nothing else" tamis repair store --confirm --dry-run
}

@test "--json of a repair that fails says what was done, and nothing that it does not know" {
    tamis init store
    seq 50000 >keys
    tamis build store a /dev/null --empty --list -q
    tamis build store b keys --list -q
    for s in a b; do rm "$(filter_of $s)"; done
    limited() { (ulimit -f "$1" && trap '' XFSZ && tamis repair store --json); }
    fails 4 "File too large" limited 48
    [ "$(jq -c '[.failed, (.findings | map(.segment)), .rebuilt]' <<<"$output")" = '[true,["a"],1]' ]
    [ "$(jq -c '[.segments, .damaged, .unread, .complete]' <<<"$output")" = '[null,null,null,null]' ]
    fails 3 "dealt with" tamis repair store --json
    [ "$(jq -c '[.failed, .rebuilt, .segments, .complete]' <<<"$output")" = '[false,1,2,true]' ]
}

@test "a list that lacks a segment of quarantine is not confirmed" {
    make_store
    f=$(filter_of one)
    flip "$f" 130 # its name
    rm store/catalog.lmdb
    fails 3 "damage was found, and dealt with" tamis repair store
    prints '; 1 segment'
    fails 3 "not confirmed: 1 filter in quarantine/ .*--bare.*--force" tamis repair store --confirm
    prints $'^noted\t-\tquarantine/.*\tnobody can tell which segment it is of$'
    tells $'a\t-\tUNKNOWN_SEGMENT' tamis probe store a
    cp -r store copy
    tells $'^noted\t-\tquarantine/' tamis repair store --confirm --force
    # Confirmed, it stays so; what lies there is named all the same.
    fails 3 "confirmed already: 1 filter in quarantine/ may be of segments that are not listed" \
        tamis repair store --confirm
    ! [[ $output =~ "nothing to confirm" ]] || explain "no contradiction"
    tells $'^noted\t-\tquarantine/.*\nthe list is complete already: nothing to confirm$' tamis repair store --confirm --force
    fails 3 "confirmed already" tamis repair store --confirm --json
    [ "$(jq -c '[.confirmed, (.findings | length)]' <<<"$output")" = '[true,1]' ]
    tells ABSENT tamis probe store a
    ok tamis build copy one --bare
    rm "copy/quarantine/${f##*/}"
    ok tamis repair copy --confirm
    gives "the list is complete already: nothing to confirm" tamis repair copy --confirm
    tells $'a\tone\tNO_FILTER' tamis probe copy a
    fails 2 "force is for --confirm" tamis repair store --force
}

# Four segments of one pack, of which the page at 5000 has rows of one band only.
@test "a damaged pack is named as such, and a segment by its own name" {
    tamis init store --seed 0123456789abcdef
    for i in 1 2 3 4; do seq $((i * 1000)) $((i * 1000 + 200)) >s$i.keys; done
    tamis build store --each s*.keys --strip .keys --pack -q
    f=$(tamis ls store s1 --json | jq -r '.[0].file')
    fails 2 "^tamis: store: segment 's3': 7 does not divide" tamis fold store x s3 --by 7
    poke "store/$f" 5000 '\x55\x55\x55\x55'
    fails 3 "^tamis: store: 0 files and 1 pack left as noted, damaged or missing: 'tamis verify' says what works for each$" tamis repair store
    [[ $output == *$'noted\t-\t'"$f"$'\tthe pack of 4 segments: 1 of '* ]] || explain "the pack and its size"
    fails 3 "copied, but 1 file damaged" tamis backup store copy
    [[ $output == *$'\t-\t'"$f"$'\tthe pack of 4 segments: pages fail'* ]] || explain "the pack and its size"
    for what in "union store x s3 s2" "compare store s3 s2" "fold store x s3 --by 1"; do
        fails 3 "^tamis: store: segment 's3': a page of the column fails" tamis $what
    done
    # A filter of its own beside it.
    seq 100 | tamis build store own -q
    rm "store/$(tamis ls store own --json | jq -r '.[0].file')"
    fails 3 ": 1 file and 1 pack left as noted" tamis repair store
    rm "store/${f%.tamis}.dead"
    fails 3 "damage was found, and dealt with" tamis repair store --confirm
    prints $'^rebuilt\t-\tfilters/.*\tits tombstones were lost: made anew from the list\nthe list is complete already$'
    gives "the list is complete already: nothing to confirm" tamis repair store --confirm
    rm "store/$f"
    fails 3 ": 1 file and 1 pack left as noted" tamis repair store
    fails 3 "^tamis: store: the list has 1 lost or damaged pack: put the files back" tamis repair store --confirm
    [[ $output != *complete* ]] || explain "no more"
}

@test "tombstones whose pack is away are set aside, and it is told" {
    tamis init store
    for i in 1 2 3 4; do seq "$i"000 "$i"200 | tamis build store "s$i"; done
    tamis pack store
    seq 9 | tamis build store loose
    dead=$(basename store/filters/*.dead)
    mv "store/filters/${dead%.dead}.tamis" away
    rm store/catalog.lmdb*
    fails 3 "dealt with" tamis repair store
    prints "$dead.*the file of these tombstones is not there"
    [ -f "store/quarantine/$dead" ]
    [ ! -e "store/filters/$dead" ]
    fails 3 "not confirmed: 1 filter in quarantine" tamis repair store --confirm
    tamis repair store --confirm --force
}
