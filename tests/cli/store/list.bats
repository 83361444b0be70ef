# Lists of hashes: beside a segment's filter, and in files of their own.
load ../common

@test "a list in a file: built, shown, probed, verified" {
    seq 1000 >keys
    ok tamis file build l.tamis keys --list
    tells 'capacity +1000' tamis file show l.tamis
    ok tamis file probe l.tamis 1 1000 nope
    [ "${lines[0]}" = $'1\tl.tamis\tHIT' ]
    [ "${lines[2]}" = $'nope\t-\tABSENT' ]
    tells "checked 1000 keys in 1 segment: 0 lost" tamis file verify l.tamis --against keys
    # Duplicates count once, one key is enough, and none is refused.
    printf 'a\nb\na\nb\na\n' >twice
    ok tamis file build twice.tamis twice --list
    tells 'capacity +2' tamis file show twice.tamis
    echo a >one
    ok tamis file build one.tamis one --list
    tells 'capacity +1' tamis file show one.tamis
    fails 2 "no key is in this list" tamis file build none.tamis /dev/null --list
    [ ! -e none.tamis ]
    ok tamis file build none.tamis /dev/null --list --empty
    tells 'capacity +0' tamis file show none.tamis
}

@test "a cut list is smaller" {
    seq 20000 >keys
    ok tamis file build whole.tamis keys --list
    # With this seed no two hashes are equal in 32 bits: of 20 others one has such a pair.
    ok tamis file build cut.tamis keys --list=32 --json --seed 0000000000000001
    [ "$(jq '.error - .keys / pow(2; 32) | fabs < 1e-12' <<<"$output")" = true ]
    ok tamis file build error.tamis keys --list --json
    [ "$(jq '.error < 1e-12 and .error > 0' <<<"$output")" = true ]
    [ "$(stat -c %s cut.tamis)" -lt $(($(stat -c %s whole.tamis) / 2)) ]
    ok tamis file verify cut.tamis --against keys
}

@test "options that contradict a list are refused" {
    seq 10 >keys
    fails 2 "leave out --fpr" tamis file build l.tamis keys --list --fpr 1%
    fails 2 "leave out --check" tamis file build l.tamis keys --list --check
    fails 2 "--list makes a list of hashes and no filter: leave out --kind, or --list" \
        tamis file build l.tamis keys --list --kind ribbon
    [ ! -e l.tamis ]
    fails 2 "--list is 1..64, not '65'" tamis file build l.tamis keys --list=65
    fails 2 "--list is 1..64, not '0'" tamis file build l.tamis keys --list=0
    tamis init store
    fails 2 "neither --bare nor --pack" tamis build store s --bare --list
    fails 2 "neither --bare nor --pack" tamis build store --each keys --pack --list
}

@test "BITS after --list and a space, and --each with --from-list: the mistake is named" {
    tamis init store
    seq 10 >keys
    local meant="--list takes BITS after '=': --list=32: see"
    fails 2 "$meant" tamis file build l.tamis keys --list 32
    fails 2 "$meant" tamis file build l.tamis --list 32
    fails 2 "$meant" tamis build store s keys --list 32
    fails 2 "$meant" tamis build store --list 32 s keys
    fails 2 "$meant" tamis build store s --list 32
    fails 2 "$meant" tamis build store --each keys --list 32
    # A segment, and a file, of this name.
    cp keys 32
    ok tamis build store --list 32 keys
    ok tamis build store s --list 32
    fails 2 "--from-list is for one segment: leave out --each" tamis build store --each 32 keys --from-list
    fails 2 "--from-list is for one segment: leave out --each" tamis build store --each 32 --from-list
}

@test "a lost or damaged filter whose list is good: repair makes it anew, and verify says so" {
    build_of s=1000 --list
    local anew="'tamis repair' makes it anew from its list$" wrong
    for wrong in rm "truncate -s 0" "truncate -s 4096" hurt; do
        file=$(filter_of s)
        $wrong "$file"
        fails 3 "$anew" tamis verify store
        [[ $wrong != rm ]] || fails 3 "$anew" tamis stat store s
        # Without a list that is good to the end the keys are needed.
        list=$(list_of s)
        mv "$list" kept
        fails 3 "anew from its keys$" tamis verify store
        cp kept "$list"
        poke "$list" 4200 '\0377\0376\0375'
        fails 3 "anew from its keys$" tamis verify store
        cp kept "$list"
        run tamis repair store
        ok tamis verify store --against-list
    done
    tamis build store s s --list=40 --replaces s -q
    rm "$(filter_of s)"
    fails 3 "anew from its keys$" tamis verify store
    # Each segment has its own advice, beside the one that is named as the error.
    tamis build store t s --list -q
    flip "$(filter_of t)" 5000
    tamis build store u s -q
    flip "$(filter_of u)" 5000
    fails 3 "anew from its keys$" tamis verify store
    prints $'^s\tlost\t[^\t]*\tbuild the segment anew from its keys\nt\tdamaged\t[^\t]*\t'"${anew%$}"$'\nu\tdamaged\t[^\t]*\tbuild it anew from its keys$'
    fails 3 "anew from its keys$" tamis verify store --json
    [ "$(jq -r '.segments[1].advice' <<<"$output")" = "${anew%$}" ]
}
hurt() {
    flip "$1" 5000
}

@test "verify --against-list: every hash of the segment's list" {
    build_of a=3000 --list
    build_of b=5
    tamis build store cut b --list=40 -q
    ok tamis verify store --against-list
    [ "${lines[-2]}" = "checked 3000 hashes in 1 segment: 0 lost" ]
    [ "${lines[-1]}" = "not checked: 2 segments: 1 without a list, 1 with a list of cut hashes" ]
    ok tamis verify store --against-list --json
    [ "$(jq -c '.against | [.segments, .unlisted, .cut, .unread]' <<<"$output")" = "[1,1,1,0]" ]
    tamis build store bad a --list -q
    poke "$(list_of bad)" 9000 '\0377\0376\0375'
    fails 3 "segment 'bad': its list: " tamis verify store --against-list
    prints ', 1 with a list that cannot be read$'
    tamis drop store bad -q
    ok tamis verify store a --against-list
    [ "${lines[-1]}" = "checked 3000 hashes in 1 segment: 0 lost" ]
    ok tamis verify store a --against-list --json
    [ "$(jq -c '.against | [.keys, .segments, .lost]' <<<"$output")" = "[3000,1,0]" ]
    fails 5 "segment 'b' has no list" tamis verify store b --against-list
    fails 2 "segment 'cut': its list has 40 bits of each hash" tamis verify store cut --against-list
    fails 2 "reads no keys" tamis verify store a --against-list --against a
    tamis drop store a
    fails 5 "no segment has a list of whole hashes" tamis verify store --against-list
    ok tamis pack store -q
}

@test "repair makes lost and damaged filters anew from their lists" {
    build_of a=$((RANDOM % 9 + 2000)) b=$((RANDOM % 9 + 2000)) c=2000 --list
    file=$(tamis ls store a --json | jq -r '.[0].file')
    poke "store/$file" 4200 '\0377\0376\0375'
    rm "store/$(tamis ls store b --json | jq -r '.[0].file')"
    cp -a store dry
    fails 3 "damage was found" tamis repair dry --dry-run
    prints 'would be: 0 finished, 2 rebuilt, 0 quarantined, 0 swept; 3 segments'
    diff -r -x "*-lock" store dry
    fails 3 "damage was found, and dealt with" tamis repair store
    grep -q $'^rebuilt\ta\t.*made anew from its list$' <<<"$output"
    for s in a b c; do ok tamis verify store $s --against $s; done
    tells 'nothing to do: 3 segments' tamis repair store
    # Packed, and the pack is lost: files of their own, and the lists stay.
    tamis pack store -q
    rm store/filters/"$(tamis ls store a --json | jq -r '.[0].pack.file // .[0].file' | xargs basename)"
    ok tamis build store b --from-list
    fails 3 "dealt with" tamis repair store
    for s in a b c; do ok tamis verify store $s --against $s; done
    ok tamis verify store --against-list
}

@test "compare counts exactly where both have lists of whole hashes" {
    build_of a=30000 b=20001..60000 --list
    tamis build store c a -q
    tamis build store sub a --list -q
    ok tamis compare store a b
    [ "${lines[3]}" = "in common: 10000 keys" ]
    prints 'Jaccard: 16.67%'
    prints 'counted exactly'
    ok tamis compare store a sub --json
    jq -e '[.exact, .common.value, .filters[].in_other] == [true, 30000, "yes", "yes"]' <<<"$output"
    ok tamis compare store a c
    ! grep exactly <<<"$output" || explain "an estimate"
    for s in a b; do tamis file build $s.list $s --list --seed 00000000000000aa -q; done
    tamis file build other.list b --list -q
    ok tamis file compare a.list b.list
    [ "${lines[3]}" = "in common: 10000 keys" ]
    fails 3 "another hash or seed" tamis file compare a.list other.list
    poke b.list 9000 '\0377\0376\0375'
    fails 3 "b.list.*page" tamis file compare a.list b.list
}

@test "compare says which list it could not use" {
    build_of a=30000 b=20001..50000 --list
    tamis build store r b --list --kind ribbon -q
    tamis build store cut b --list=40 -q
    tamis build store plain b -q
    poke "$(list_of b)" 9000 '\0377\0376\0375'
    fails 3 "segment 'b': its list: .* fail.* sets the list aside" tamis compare store a b
    [ "${#lines[@]}" -eq 6 ]
    [[ $output != *exactly* ]]
    fails 3 "segment 'b': its list: .*the filters allow no comparison" tamis compare store r b
    # These have nothing to count by, whatever the list of b is worth.
    ok tamis compare store plain b
    ok tamis compare store b cut
    lost=$(list_of r)
    mv "$lost" away
    fails 3 "segment 'r': its list: .*No such file.*the filters allow no comparison" tamis compare store a r
    fails 2 "a filter of kind ribbon allows no comparison: build a Bloom filter from its keys$" tamis compare store plain r
    mv away "$lost"
    for command in "compare store plain r" "fold store new r --by 1" "union store new plain r"; do
        fails 2 "segment 'r': .*: its list makes one: tamis build store r --from-list --kind bloom$" tamis $command
    done
    cp "$lost" kept # a list that is damaged after its header makes none
    poke "$lost" 9000 '\0377\0376\0375'
    fails 2 "segment 'r': .*: build a Bloom filter from its keys$" tamis fold store new r --by 1
    cp kept "$lost"
    fails 2 "its list makes one: " tamis fold store new r --by 1
    sh -c "tamis ${stderr##*: tamis }" # the advice itself
    ok tamis compare store plain r
}

@test "ls and stat show lists" {
    build_of a=3000 --list=40
    tamis build store b a -q
    ok tamis ls store --json
    [ "$(jq -c '[.[].list.hash_bits, .[0].list.hashes]' <<<"$output")" = '[40,null,3000]' ]
    tells 'list +3000 hashes of 40 bits' tamis stat store a
    tamis build store bit <(echo key) --list=1 -q
    tells 'list +1 hash of 1 bit, ' tamis stat store bit
    fails 2 "its list has 1 bit of each hash, " tamis verify store bit --against-list
    tamis drop store bit -q
    # A list has each key once; a filter cannot tell repeats from other keys.
    cat a a | tamis build store a --replaces a --list -q
    ok tamis ls store a --json
    [ "$(jq -c '.[] | [.keys, .list.hashes]' <<<"$output")" = '[6000,3000]' ]
    ok tamis help ls
    grep -q 'one that build reads twice counts twice, unless side by side' <<<"$(tr '\n' ' ' <<<"$output")"
    printf 'a\na\nb\na\n' | tamis build store a --replaces a --list -q
    [ "$(tamis ls store a --json | jq '.[0].keys')" -eq 3 ]
}

@test "a damaged header is named once" {
    build_of a=1000 --list
    poke "$(list_of a)" 100 '\0377\0377'
    fails 3 ": checksum: does not match .offset 2040.: " tamis build store a --from-list
}
