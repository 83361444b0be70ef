# Lists of hashes: beside a segment's filter, and in files of their own.
load ../common

@test "a list in a file: built, shown, probed, verified" {
    seq 1000 >keys
    ok "$TAMIS" file build l.tamis keys --list
    ok "$TAMIS" file show l.tamis
    prints 'capacity +1000'
    ok "$TAMIS" file probe l.tamis 1 1000 nope
    [ "${lines[0]}" = $'1\tl.tamis\tHIT' ]
    [ "${lines[2]}" = $'nope\t-\tABSENT' ]
    ok "$TAMIS" file verify l.tamis --against keys
    prints "checked 1000 keys in 1 segment: 0 lost"
}

@test "a cut list is smaller" {
    seq 20000 >keys
    ok "$TAMIS" file build whole.tamis keys --list
    # With this seed no two hashes are equal in 32 bits: of 20 others one has such a pair.
    ok "$TAMIS" file build cut.tamis keys --list=32 --json --seed 0000000000000001
    [ "$(jq '.error - .keys / pow(2; 32) | fabs < 1e-12' <<<"$output")" = true ]
    ok "$TAMIS" file build error.tamis keys --list --json
    [ "$(jq '.error < 1e-12 and .error > 0' <<<"$output")" = true ]
    [ "$(stat -c %s cut.tamis)" -lt $(($(stat -c %s whole.tamis) / 2)) ]
    ok "$TAMIS" file verify cut.tamis --against keys
}

@test "duplicates count once, one key is enough, and none is refused" {
    printf 'a\nb\na\nb\na\n' >twice
    ok "$TAMIS" file build l.tamis twice --list
    ok "$TAMIS" file show l.tamis
    prints 'capacity +2'
    echo a >one
    ok "$TAMIS" file build one.tamis one --list
    ok "$TAMIS" file show one.tamis
    prints 'capacity +1'
    fails 2 "no key is in this list" "$TAMIS" file build none.tamis /dev/null --list
    [ ! -e none.tamis ]
    ok "$TAMIS" file build none.tamis /dev/null --list --empty
    ok "$TAMIS" file show none.tamis
    prints 'capacity +0'
}

@test "options that contradict a list are refused" {
    seq 10 >keys
    fails 2 "leave out --fpr" "$TAMIS" file build l.tamis keys --list --fpr 1%
    fails 2 "leave out --check" "$TAMIS" file build l.tamis keys --list --check
    fails 2 "--list makes a list of hashes and no filter: leave out --kind, or --list" \
        "$TAMIS" file build l.tamis keys --list --kind ribbon
    [ ! -e l.tamis ]
    fails 2 "--list is 1..64, not '65'" "$TAMIS" file build l.tamis keys --list=65
    fails 2 "--list is 1..64, not '0'" "$TAMIS" file build l.tamis keys --list=0
    "$TAMIS" init store
    fails 2 "neither --bare nor --pack" "$TAMIS" build store s --bare --list
    fails 2 "neither --bare nor --pack" "$TAMIS" build store --each keys --pack --list
}

@test "BITS after --list and a space, and --each with --from-list: the mistake is named" {
    "$TAMIS" init store
    seq 10 >keys
    local meant="--list takes BITS after '=': --list=32: see"
    fails 2 "$meant" "$TAMIS" file build l.tamis keys --list 32
    fails 2 "$meant" "$TAMIS" file build l.tamis --list 32
    fails 2 "$meant" "$TAMIS" build store s keys --list 32
    fails 2 "$meant" "$TAMIS" build store --list 32 s keys
    fails 2 "$meant" "$TAMIS" build store s --list 32
    fails 2 "$meant" "$TAMIS" build store --each keys --list 32
    # A segment, and a file, of this name.
    cp keys 32
    ok "$TAMIS" build store --list 32 keys
    ok "$TAMIS" build store s --list 32
    fails 2 "--from-list is for one segment: leave out --each" "$TAMIS" build store --each 32 keys --from-list
    fails 2 "--from-list is for one segment: leave out --each" "$TAMIS" build store --each 32 --from-list
}

@test "a segment with a list: built, verified, repaired, backed up, dropped" {
    "$TAMIS" init store
    seq 5000 >keys
    ok "$TAMIS" build store s keys --list
    [ "$(find store/filters -type f | wc -l)" -eq 2 ]
    ok "$TAMIS" build store t keys
    ok "$TAMIS" probe store 77
    ok "$TAMIS" repair store
    ok "$TAMIS" backup store copy
    [ "$(find copy/filters -type f | wc -l)" -eq 3 ]
    ok "$TAMIS" verify copy
    ok "$TAMIS" drop store s
    [ "$(find store/filters -type f | wc -l)" -eq 1 ]
}

@test "a lost or damaged filter whose list is good: repair makes it anew, and verify says so" {
    "$TAMIS" init store
    seq 1000 >keys
    "$TAMIS" build store s keys --list -q
    local anew="'tamis repair' makes it anew from its list$" wrong
    for wrong in rm "truncate -s 0" "truncate -s 4096" hurt; do
        file=$(filter_of s)
        $wrong "$file"
        fails 3 "$anew" "$TAMIS" verify store
        [[ $wrong != rm ]] || fails 3 "$anew" "$TAMIS" stat store s
        # Without a list that is good to the end the keys are needed.
        list=$(list_of s)
        mv "$list" kept
        fails 3 "anew from its keys$" "$TAMIS" verify store
        cp kept "$list"
        poke "$list" 4200 '\0377\0376\0375'
        fails 3 "anew from its keys$" "$TAMIS" verify store
        cp kept "$list"
        run "$TAMIS" repair store
        ok "$TAMIS" verify store --against-list
    done
    "$TAMIS" build store s keys --list=40 --replaces s -q
    rm "$(filter_of s)"
    fails 3 "anew from its keys$" "$TAMIS" verify store
    # Each segment has its own advice, beside the one that is named as the error.
    "$TAMIS" build store t keys --list -q
    flip "$(filter_of t)" 5000
    "$TAMIS" build store u keys -q
    flip "$(filter_of u)" 5000
    fails 3 "anew from its keys$" "$TAMIS" verify store
    prints $'^s\tlost\t[^\t]*\tbuild the segment anew from its keys\nt\tdamaged\t[^\t]*\t'"${anew%$}"$'\nu\tdamaged\t[^\t]*\tbuild it anew from its keys$'
    fails 3 "anew from its keys$" "$TAMIS" verify store --json
    [ "$(jq -r '.segments[1].advice' <<<"$output")" = "${anew%$}" ]
}
hurt() {
    flip "$1" 5000
}

@test "verify finds a bad list, which costs no answer, and repair sets it aside" {
    "$TAMIS" init store
    seq 5000 >keys
    "$TAMIS" build store s keys -q
    "$TAMIS" build store t keys --list -q
    ok "$TAMIS" verify store
    [ "${#lines[@]}" -eq 2 ]
    list=$(ls -S store/filters/* | head -n 1)
    poke "$list" 9000 '\0377\0376\0375'
    fails 3 "segment 't': its list: .* pages fail .*'tamis repair' sets the list aside" "$TAMIS" verify store
    prints $'t\tdamaged\tits list: '
    ok "$TAMIS" probe store 77
    "$TAMIS" repair store >said || true
    grep -q "its list: " said
    ok "$TAMIS" verify store
    fails 5 "has no list of its hashes" "$TAMIS" build store t --from-list
    ok "$TAMIS" verify store t --against keys
}

@test "repair records a segment without a list that is missing" {
    "$TAMIS" init store
    seq 5000 >keys
    "$TAMIS" build store t keys --list -q
    mv "$(list_of t)" away
    fails 3 "segment 't': its list: .*'tamis repair' records the segment without it" \
        "$TAMIS" verify store
    prints $'t\tlost\tits list: '
    fails 3 "damage was found$" "$TAMIS" repair store --dry-run --json
    [ "$(jq -c '[.findings[] | .action, .damage]' <<<"$output")" = '["rebuilt",true]' ]
    fails 3 "damage was found, and dealt with" "$TAMIS" repair store
    prints $'^rebuilt\tt\t.*its list is missing: recorded without one'
    prints '0 finished, 1 rebuilt, 0 quarantined'
    ok "$TAMIS" repair store
    ok "$TAMIS" verify store
    fails 5 "has no list of its hashes" "$TAMIS" build store t --from-list
    ok "$TAMIS" verify store t --against keys
}

@test "verify --against-list: every hash of the segment's list" {
    "$TAMIS" init store
    seq 3000 >a
    seq 5 >b
    "$TAMIS" build store a a --list -q
    "$TAMIS" build store b b -q
    "$TAMIS" build store cut b --list=40 -q
    ok "$TAMIS" verify store --against-list
    [ "${lines[-2]}" = "checked 3000 hashes in 1 segment: 0 lost" ]
    [ "${lines[-1]}" = "not checked: 2 segments: 1 without a list, 1 with a list of cut hashes" ]
    ok "$TAMIS" verify store --against-list --json
    [ "$(jq -c '.against | [.segments, .unlisted, .cut, .unread]' <<<"$output")" = "[1,1,1,0]" ]
    "$TAMIS" build store bad a --list -q
    poke "$(list_of bad)" 9000 '\0377\0376\0375'
    fails 3 "segment 'bad': its list: " "$TAMIS" verify store --against-list
    prints ', 1 with a list that cannot be read$'
    "$TAMIS" drop store bad -q
    ok "$TAMIS" verify store a --against-list
    [ "${lines[-1]}" = "checked 3000 hashes in 1 segment: 0 lost" ]
    ok "$TAMIS" verify store a --against-list --json
    [ "$(jq -c '.against | [.keys, .segments, .lost]' <<<"$output")" = "[3000,1,0]" ]
    fails 5 "segment 'b' has no list" "$TAMIS" verify store b --against-list
    fails 2 "segment 'cut': its list has 40 bits of each hash" "$TAMIS" verify store cut --against-list
    fails 2 "reads no keys" "$TAMIS" verify store a --against-list --against a
    "$TAMIS" drop store a
    fails 5 "no segment has a list of whole hashes" "$TAMIS" verify store --against-list
    ok "$TAMIS" pack store -q
}

@test "repair makes lost and damaged filters anew from their lists" {
    "$TAMIS" init store
    for s in a b c; do seq "$((RANDOM % 9 + 2000))" >$s; done
    "$TAMIS" build store --each a b c --list -q
    file=$("$TAMIS" ls store a --json | jq -r '.[0].file')
    poke "store/$file" 4200 '\0377\0376\0375'
    rm "store/$("$TAMIS" ls store b --json | jq -r '.[0].file')"
    cp -a store dry
    fails 3 "damage was found" "$TAMIS" repair dry --dry-run
    prints 'would be: 0 finished, 2 rebuilt, 0 quarantined, 0 swept; 3 segments'
    diff -r -x "*-lock" store dry
    fails 3 "damage was found, and dealt with" "$TAMIS" repair store
    grep -q $'^rebuilt\ta\t.*made anew from its list$' <<<"$output"
    for s in a b c; do ok "$TAMIS" verify store $s --against $s; done
    ok "$TAMIS" repair store
    prints 'nothing to do: 3 segments'
    # Packed, and the pack is lost: files of their own, and the lists stay.
    "$TAMIS" pack store -q
    rm store/filters/"$("$TAMIS" ls store a --json | jq -r '.[0].pack.file // .[0].file' | xargs basename)"
    fails 3 "dealt with" "$TAMIS" repair store
    for s in a b c; do ok "$TAMIS" verify store $s --against $s; done
    ok "$TAMIS" verify store --against-list
}

@test "compare counts exactly where both have lists of whole hashes" {
    "$TAMIS" init store
    seq 30000 >a
    seq 20001 60000 >b
    "$TAMIS" build store --each a b --list -q
    "$TAMIS" build store c a -q
    "$TAMIS" build store sub a --list -q
    ok "$TAMIS" compare store a b
    [ "${lines[3]}" = "in common: 10000 keys" ]
    prints 'Jaccard: 16.67%'
    prints 'counted exactly'
    ok "$TAMIS" compare store a sub --json
    [ "$(jq -c '[.exact, .common.value, .filters[].in_other]' <<<"$output")" = '[true,30000,"yes","yes"]' ]
    ok "$TAMIS" compare store a c
    ! grep exactly <<<"$output" || explain "an estimate"
    for s in a b; do "$TAMIS" file build $s.list $s --list --seed 00000000000000aa -q; done
    "$TAMIS" file build other.list b --list -q
    ok "$TAMIS" file compare a.list b.list
    [ "${lines[3]}" = "in common: 10000 keys" ]
    fails 3 "another hash or seed" "$TAMIS" file compare a.list other.list
    poke b.list 9000 '\0377\0376\0375'
    fails 3 "b.list.*page" "$TAMIS" file compare a.list b.list
}

@test "compare says which list it could not use" {
    "$TAMIS" init store
    seq 30000 >a
    seq 20001 50000 >b
    "$TAMIS" build store --each a b --list -q
    "$TAMIS" build store r b --list --kind ribbon -q
    "$TAMIS" build store cut b --list=40 -q
    "$TAMIS" build store plain b -q
    poke "$(list_of b)" 9000 '\0377\0376\0375'
    fails 3 "segment 'b': its list: .* fail.* sets the list aside" "$TAMIS" compare store a b
    [ "${#lines[@]}" -eq 6 ]
    [[ $output != *exactly* ]]
    fails 3 "segment 'b': its list: .*the filters allow no comparison" \
        "$TAMIS" compare store r b
    # These have nothing to count by, whatever the list of b is worth.
    ok "$TAMIS" compare store plain b
    ok "$TAMIS" compare store b cut
    lost=$(list_of r)
    mv "$lost" away
    fails 3 "segment 'r': its list: .*No such file.*the filters allow no comparison" \
        "$TAMIS" compare store a r
    fails 2 "a filter of kind ribbon allows no comparison: build a Bloom filter from its keys$" "$TAMIS" compare store plain r
    mv away "$lost"
    for command in "compare store plain r" "fold store new r --by 1" "union store new plain r"; do
        # shellcheck disable=SC2086
        fails 2 "segment 'r': .*: its list makes one: tamis build store r --from-list --kind bloom$" "$TAMIS" $command
    done
    cp "$lost" kept # a list that is damaged after its header makes none
    poke "$lost" 9000 '\0377\0376\0375'
    fails 2 "segment 'r': .*: build a Bloom filter from its keys$" "$TAMIS" fold store new r --by 1
    cp kept "$lost"
    fails 2 "its list makes one: " "$TAMIS" fold store new r --by 1
    sh -c "\"\$TAMIS\" ${stderr##*: tamis }" # the advice itself
    ok "$TAMIS" compare store plain r
}

@test "compare says so if it has no memory for a list" {
    "$TAMIS" init store
    seq 3000 >a
    "$TAMIS" build store a a --list -q
    "$TAMIS" build store b a --list -q
    compare_in() { bash -c 'ulimit -v "$1"; exec "$TAMIS" compare store a b' - "$1"; }
    # With ASan no process starts within such a limit.
    if grep -q __asan_init "$TAMIS"; then
        ok "$TAMIS" compare store a b
        return
    fi
    # The least address space in which it counts.
    local few=1000 enough=4000000 middle
    while [ $((enough - few)) -gt 4 ]; do
        middle=$(((few + enough) / 2))
        if compare_in $middle 2>/dev/null | grep -q exactly; then enough=$middle; else few=$middle; fi
    done
    fails 4 "^tamis: store: segment '[ab]': its list: .*Cannot allocate memory" compare_in $few
    [[ $output == "a: "* ]]
}

@test "ls and stat show lists" {
    "$TAMIS" init store
    seq 3000 >a
    "$TAMIS" build store a a --list=40 -q
    "$TAMIS" build store b a -q
    ok "$TAMIS" ls store --json
    [ "$(jq -c '[.[].list.hash_bits, .[0].list.hashes]' <<<"$output")" = '[40,null,3000]' ]
    ok "$TAMIS" stat store a
    prints 'list +3000 hashes of 40 bits'
    "$TAMIS" build store bit <(echo key) --list=1 -q
    ok "$TAMIS" stat store bit
    prints 'list +1 hash of 1 bit, '
    fails 2 "its list has 1 bit of each hash, " "$TAMIS" verify store bit --against-list
    "$TAMIS" drop store bit -q
    # A list has each key once; a filter cannot tell repeats from other keys.
    cat a a | "$TAMIS" build store a --replaces a --list -q
    ok "$TAMIS" ls store a --json
    [ "$(jq -c '.[] | [.keys, .list.hashes]' <<<"$output")" = '[6000,3000]' ]
    ok "$TAMIS" help ls
    grep -q 'one that build reads twice counts twice, unless side by side' <<<"$(tr '\n' ' ' <<<"$output")"
    printf 'a\na\nb\na\n' | "$TAMIS" build store a --replaces a --list -q
    [ "$("$TAMIS" ls store a --json | jq '.[0].keys')" -eq 3 ]
}

@test "a damaged header is named once, and a lost list is no filter" {
    "$TAMIS" init store
    seq 1000 >a
    "$TAMIS" build store a a --list -q
    file=$(list_of a)
    poke "$file" 100 '\0377\0377'
    fails 3 ": checksum: does not match .offset 2040.: " "$TAMIS" build store a --from-list
    rm "$file"
    fails 3 "copied, but 1 file left out: " "$TAMIS" backup store copy
    "$TAMIS" build store b a --list -q
    rm -r copy
    fails 3 "copied, but 1 file left out: " "$TAMIS" backup store copy
    prints '2 segments, 3 files, '
}
