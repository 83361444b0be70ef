# Files that the store names and that are missing: damage, for every command.
load ../common

# As make_store, but with lists of hashes; and `grows`, which is open.
make_listed() {
    tamis init store
    seq 1000 >one.keys
    seq 500 1510 >two.keys # as many blocks as the first
    tamis build store --each one.keys two.keys --strip .keys --list -q
    tamis build store plain one.keys -q
    tamis build store cut one.keys --list=40 -q
    tamis grow store grows one.keys -q
}

# each_fails STATUS PATTERN COMMAND...: fails() for each command, a string, on a copy of the store.
each_fails() {
    local want=$1 pattern=$2 c
    shift 2
    for c in "$@"; do
        cp -r store kept
        fails "$want" "$pattern" tamis $c
        rm -r store
        mv kept store
    done
}

@test "a missing filter is damage to every command" {
    make_listed
    grows=$(filter_of grows)
    rm "$(filter_of one)" "$grows"
    each_fails 3 "No such file" "union store u one two" "intersect store u one two" \
        "fold store f one --by 2" "compare store one plain" "verify store one" "stat store one"
    for how in true touch "cp one.keys" mkdir mkfifo; do
        rm -rf "$grows" && $how "$grows"
        each_fails 3 "^tamis: store: segment 'grows': .*[,:] (or )?build the segment anew from its keys$" \
            "grow store grows one.keys" "seal store grows" "union store u two grows"
    done
    each_fails 3 "2 filters cannot be read" "plan store --bytes 300K" "plan store --bytes 300K --apply"
    each_fails 3 "2 files left out" "backup store copy"
}

@test "a missing list is damage, and no list is status 5" {
    make_listed
    list=$(list_of one)
    mv "$list" kept.list
    each_fails 3 "segment 'one': its list: .*No such file.*'tamis repair' records the segment without it" \
        "verify store one" "compare store one two"
    cp kept.list "$list"
    flip "$list" 4200
    each_fails 3 "segment 'one': its list: .* fails? .*'tamis repair' sets the list aside" \
        "verify store one" "compare store one two"
    each_fails 5 "^tamis: store: segment 'plain' has no list of its hashes: build it with one" \
        "verify store plain --against-list"
}

@test "a missing pack is damage of all segments that are in it" {
    make_listed
    tamis pack store -q
    rm "store/$(tamis ls store one --json | jq -r '.[0].file')"
    each_fails 3 "this pack is missing: 'tamis repair' makes it anew from its list" "verify store one"
    ok tamis compare store one two # by their lists
    # "plain" has no record, and any new name may be one of the pack's.
    each_fails 3 "segment 'plain': the pack that may have it: " "compare store plain one" \
        "probe store k --segment plain"
    each_fails 3 "cannot tell whether it has segment '[umf]': put the pack's files back" \
        "union store u one two" "merge store m one two" "fold store f one --by 2"
    each_fails 3 "missing or damaged" "pack store one" "unpack store one" "stat store"
    ok tamis build store one --from-list # its name is in its record, so in no pack
}

@test "stat tells of a list that is missing or damaged, as of a filter" {
    make_listed
    tamis stat store --prometheus >out
    grep -qx 'tamis_segment_list_readable{store="store",segment="one"} 1' out
    ! grep 'list_readable.*"plain"' out || explain "nothing of a list that plain never had"
    ! grep list_damaged out || explain "no damaged list"
    list=$(list_of one)
    cp "$list" good
    each() {
        each_fails 3 "^tamis: store: 0 filters unreadable, 0 lost, 1 list unusable: 'tamis verify' says which" \
            "stat store" "stat store --json" "stat store --prometheus" "stat store one"
        fails 3 "1 list unusable" tamis stat store
        prints $'\n +1 list unusable\n'
        fails 3 "1 list unusable" tamis stat store --json
        [ "$(jq .unusable_lists <<<"$output")" = 1 ]
        fails 3 "1 list unusable" tamis stat store --prometheus
        grep -qx 'tamis_segment_list_readable{store="store",segment="one"} 0' <<<"$output"
        fails 3 "1 list unusable" tamis stat store one
        prints "  list +unusable: $1"
        ok tamis stat store two plain
    }
    rm "$list"
    each "opening the list: No such file"
    head -c 100 good >"$list"
    each .
    mkdir "$list.d" && rm "$list" && mv "$list.d" "$list"
    each .
    rmdir "$list"
    # The pages of a list are read where all pages are.
    cp good "$list"
    flip "$list" 4200
    ok tamis stat store
    fails 3 "^tamis: store: 1 damaged page: " tamis stat store --prometheus --check
    grep -qx 'tamis_segment_list_damaged_pages{store="store",segment="one"} 1' <<<"$output"
    grep -qx 'tamis_segment_list_damaged_pages{store="store",segment="two"} 0' <<<"$output"
    awk -f "$BATS_TEST_DIRNAME/../output/prometheus.awk" <<<"$output"
    # A list is looked at where the filter is in a pack, too.
    cp good "$list"
    tamis pack store -q
    rm "$list"
    fails 3 "1 list unusable" tamis stat store
}

@test "verify advises repair where good lists make damaged columns and exchanged filters anew" {
    make_listed
    a=$(filter_of one) b=$(filter_of two)
    mv "$a" kept && mv "$b" "$a" && mv kept "$b"
    fails 3 "UUID differs.*: put its own file in its place, or 'tamis repair' makes it anew from its list$" \
        tamis verify store one
    flip "$(list_of one)" 4200
    fails 3 "UUID differs.*: put its own file in its place, or build the segment anew from its keys$" \
        tamis verify store one
    flip "$(list_of one)" 4200
    fails 3 "dealt with" tamis repair store
    tamis drop store grows cut plain -q
    tamis pack store -q
    file=store/$(tamis ls store one --json | jq -r '.[0].file')
    # Each page of the rows is of both segments.
    flip "$file" 5000
    fails 3 "segments affected: 2 of 2; 'tamis repair' makes these anew from their lists$" tamis verify store
    rm "$(list_of two)"
    fails 3 "segments affected: 2 of 2; 'tamis repair' makes those with lists anew; build the rest from their keys$" \
        tamis verify store
    run tamis repair store
    fails 3 "segments affected: 1 of 1; build these anew from their keys$" tamis verify store
}
