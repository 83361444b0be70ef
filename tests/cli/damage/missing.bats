# Files that the store names and that are missing: damage, for every command.
load ../common

# As make_store, but with lists of hashes; and `grows`, which is open.
make_listed() {
    "$TAMIS" init store
    seq 1000 >one.keys
    seq 500 2000 >two.keys
    "$TAMIS" build store --each one.keys two.keys --strip .keys --list -q
    "$TAMIS" build store plain one.keys -q
    "$TAMIS" build store cut one.keys --list=40 -q
    "$TAMIS" grow store grows one.keys -q
}

# each_fails STATUS PATTERN COMMAND...: fails() for each command, a string, on a copy of the store.
each_fails() {
    local want=$1 pattern=$2 c
    shift 2
    for c in "$@"; do
        cp -r store kept
        # shellcheck disable=SC2086
        fails "$want" "$pattern" "$TAMIS" $c
        rm -r store
        mv kept store
    done
}

@test "a missing filter is damage, whatever is done with it" {
    make_listed
    rm "$(filter_of one)" "$(filter_of grows)"
    each_fails 3 "No such file" "union store u one two" "intersect store u one two" \
        "fold store f one --by 2" "compare store one plain" "verify store one" "stat store one"
    each_fails 3 "segment 'grows': .*No such file.*: build it anew from its keys" \
        "grow store grows one.keys" "seal store grows" "union store u two grows"
    each_fails 3 "2 filters cannot be read" "plan store --bytes 300K" "plan store --bytes 300K --apply"
    each_fails 3 "2 files left out" "backup store copy"
}

@test "a missing list is damage, and no list is status 5" {
    make_listed
    rm "$(list_of one)"
    each_fails 3 "the list of segment 'one': .*No such file.*: build the segment anew" \
        "build store one --from-list" "merge store m one two"
    each_fails 3 "segment 'one': its list: .*No such file" "verify store one" "compare store one two"
    each_fails 5 "^tamis: store: segment 'plain' has no list of its hashes: build it with one" \
        "build store plain --from-list" "merge store m two plain" "verify store plain --against-list"
    each_fails 2 "the list of segment 'cut' has 40 bits of each hash" "build store cut --from-list"
}

@test "a missing pack is damage of all segments that are in it" {
    make_listed
    "$TAMIS" pack store -q
    rm "store/$("$TAMIS" ls store one --json | jq -r '.[0].file')"
    each_fails 3 "segment 'one': this pack is missing" "union store u one two" "compare store one plain" \
        "fold store f one --by 2"
    each_fails 3 "missing or damaged" "pack store one" "unpack store one" "stat store"
}
