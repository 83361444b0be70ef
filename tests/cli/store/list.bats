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
    ok "$TAMIS" file build cut.tamis keys --list=32
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

@test "file merge: each hash once, and what cannot be merged is refused" {
    seq 1000 >a.keys
    seq 501 2000 >b.keys
    printf 'x\n' >c.keys
    for f in a b c; do "$TAMIS" file build $f.list $f.keys --list --seed 00000000000000aa -q; done
    ok "$TAMIS" file merge all.list a.list b.list c.list
    prints '^all.list: 2001 keys of 3 lists, 500 repeats, '
    cat a.keys b.keys c.keys >all.keys
    ok "$TAMIS" file verify all.list --against all.keys
    ok "$TAMIS" file merge again.list all.list a.list --json
    prints '"repeats": 1000'
    "$TAMIS" file build cut.list a.keys --list=40 --seed 00000000000000aa -q
    fails 2 "merge lists of one width" "$TAMIS" file merge no.list a.list cut.list
    "$TAMIS" file build other.list a.keys --list -q
    fails 3 "another hash or seed" "$TAMIS" file merge no.list a.list other.list
    "$TAMIS" file build f.tamis a.keys --seed 00000000000000aa -q
    fails 2 "not a list of hashes" "$TAMIS" file merge no.list a.list f.tamis
    poke b.list 5000 '\0377\0377\0377'
    fails 3 "b.list: page .* fails its check" "$TAMIS" file merge no.list a.list b.list
    fails 2 "all.list: exists already" "$TAMIS" file merge all.list a.list
    [ ! -e no.list ]
    [ -z "$(find . -name '*.tmp')" ]
}

@test "merge: segments by their lists, and the old ones go" {
    "$TAMIS" init store
    seq 3000 >a
    seq 2001 5000 >b
    seq 10 >c
    "$TAMIS" build store --each a b --list -q
    "$TAMIS" build store c c -q
    fails 5 "segment 'c' has no list" "$TAMIS" merge store new a b c
    ok "$TAMIS" merge store new a b --replaces
    prints '^new: 5000 keys of 2 lists, 1000 repeats'
    ok "$TAMIS" ls store --names
    [ "$output" = $'c\nnew' ]
    [ "$(find store/filters -type f | wc -l)" -eq 3 ]
    cat a b >all
    ok "$TAMIS" verify store new --against all
    fails 2 "segment 'new' exists already" "$TAMIS" merge store new c
}

@test "build --from-list: another error, without keys" {
    "$TAMIS" init store
    seq 20000 >keys
    "$TAMIS" build store s keys --list --bind c0ffee --rank 3 -q
    before=$(stat -c %s store/filters/* | sort -n | head -n 1)
    ok "$TAMIS" build store s --from-list --fpr 0.01%
    ok "$TAMIS" ls store --json
    prints '"error": 0.0001'
    prints '"rank": 3'
    prints '"binding": "c0ffee"'
    [ "$(stat -c %s store/filters/* | sort -n | head -n 1)" -gt "$before" ]
    ok "$TAMIS" verify store s --against keys
    "$TAMIS" build store plain keys -q
    fails 5 "has no list of its hashes" "$TAMIS" build store plain --from-list
    "$TAMIS" build store cut keys --list=50 -q
    fails 2 "50 bits of each hash: a filter needs all 64" "$TAMIS" build store cut --from-list
    fails 5 "nowhere" "$TAMIS" build store nowhere --from-list
    fails 2 "reads no keys" "$TAMIS" build store s keys --from-list
    fails 2 "--from-list goes with" "$TAMIS" build store s --from-list --list
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

# list_file SEGMENT: the file of its list.
list_file() {
    local f
    for f in store/filters/*.tamis; do
        "$TAMIS" file show "$f" --json | jq -e --arg s "$1" '[.fields[] |
            select(.record == "identity" and (.name == "kind" or .name == "name")) |
            .value] == [5, $s]' >/dev/null && echo "$f"
    done
    :
}

@test "repair records a segment without a list that is missing" {
    "$TAMIS" init store
    seq 5000 >keys
    "$TAMIS" build store t keys --list -q
    mv "$(list_file t)" away
    fails 3 "segment 't': its list: .*'tamis repair' records the segment without it" \
        "$TAMIS" verify store
    prints $'t\tlost\tits list: '
    fails 3 "damage was found" "$TAMIS" repair store --dry-run
    fails 3 "damage was found, and dealt with" "$TAMIS" repair store
    prints $'^rebuilt\tt\t.*its list is missing: recorded without one'
    prints '0 finished, 1 rebuilt, 0 quarantined'
    ok "$TAMIS" repair store
    ok "$TAMIS" verify store
    fails 5 "has no list of its hashes" "$TAMIS" build store t --from-list
    ok "$TAMIS" verify store t --against keys
}

@test "build --from-list and merge make a ribbon" {
    "$TAMIS" init store
    seq 50000 >a
    seq 50001 90000 >b
    "$TAMIS" build store --each a b --list -q
    before=$("$TAMIS" ls store a --json | jq '.[0].bytes')
    ok "$TAMIS" build store a --from-list --kind ribbon --fpr 1%
    [ "$("$TAMIS" ls store a --json | jq '.[0].bytes')" -lt $((before * 5 / 6)) ]
    ok "$TAMIS" verify store a --against a
    ok "$TAMIS" merge store ab a b --kind ribbon --replaces
    cat a b >all
    ok "$TAMIS" verify store ab --against all
    [ "$("$TAMIS" ls store ab --json | jq '.[0].bytes')" -lt 100000 ]
    fails 2 "ribbon" "$TAMIS" build store ab --from-list --kind ribbon --for-packs
}

@test "plan --apply makes from lists what a fold cannot give" {
    "$TAMIS" init store
    seq 30000 >a
    seq 100001 130000 >b
    seq 200001 230000 >c
    "$TAMIS" build store --each a b --list --fpr 5% -q
    "$TAMIS" build store c c --list=40 --fpr 5% --bind 0102 -q
    ok "$TAMIS" plan store --bytes 250K --apply
    [ "$(grep -c '^rebuilt  [ab] from its list: ' <<<"$output")" -eq 2 ]
    grep -q '^rebuild  c: tamis build STORE NAME KEYFILE .* --bind 0102 --list=40$' <<<"$output"
    prints ' taken; [0-9]+ bytes of filters now'
    ok "$TAMIS" verify store a --against a
    [ "$("$TAMIS" ls store a --json | jq '.[0].error < 0.01')" = true ]
    ok "$TAMIS" plan store --bytes 250K --apply
    ! grep -q '^rebuilt' <<<"$output"
    # Without its list the keys are needed, and the new segment has a list again.
    poke "$(ls -S store/filters/* | head -n 1)" 9000 '\0377\0376\0375'
    ok "$TAMIS" plan store --bytes 600K --apply
    grep -q '^list     [ab]: .*fails its check' <<<"$output"
    grep -q '^rebuild  [ab]: tamis build STORE NAME KEYFILE .* --replaces NAME --list$' <<<"$output"
    grep -q '^rebuild  c: tamis build .* --bind 0102 --list=40$' <<<"$output"
    rm "$(list_file c)"
    ok "$TAMIS" plan store --bytes 600K --apply
    grep -q '^rebuild  c: tamis build .* --bind 0102 --list$' <<<"$output"
}

@test "plan --apply that fails: what is left needs no keys where there are lists" {
    "$TAMIS" init store
    seq 30000 >a
    seq 100001 130000 >b
    "$TAMIS" build store --each a b --list --fpr 5% -q
    "$TAMIS" build store c a --fpr 5% -q
    fails 4 "File too large" bash -c 'ulimit -f 64; "$TAMIS" plan store --bytes 300K --apply'
    [ "$(grep -c '^rebuild  [ab]: tamis build STORE NAME --from-list --fpr [0-9.e-]*$' <<<"$output")" -eq 2 ]
    grep -q '^rebuild  c: tamis build STORE NAME KEYFILE --fpr [0-9.e-]* --replaces NAME$' <<<"$output"
    fpr=$(sed -n 's/^rebuild  a: .*--fpr //p' <<<"$output")
    ok "$TAMIS" build store a --from-list --fpr "$fpr"
    ok "$TAMIS" verify store --against-list
    ok "$TAMIS" plan store --bytes 300K --apply
    grep -q '^rebuilt  b from its list: ' <<<"$output"
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
    poke "$(list_file bad)" 9000 '\0377\0376\0375'
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
    ! grep -q exactly <<<"$output"
    for s in a b; do "$TAMIS" file build $s.list $s --list --seed 00000000000000aa -q; done
    "$TAMIS" file build other.list b --list -q
    ok "$TAMIS" file compare a.list b.list
    [ "${lines[3]}" = "in common: 10000 keys" ]
    fails 2 "" "$TAMIS" file compare a.list other.list
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
    poke "$(list_file b)" 9000 '\0377\0376\0375'
    fails 3 "segment 'b': its list: .* fail.* sets the list aside" "$TAMIS" compare store a b
    [ "${#lines[@]}" -eq 6 ]
    [[ $output != *exactly* ]]
    fails 3 "segment 'b': its list: .*the filters allow no comparison" \
        "$TAMIS" compare store r b
    # These have nothing to count by, whatever the list of b is worth.
    ok "$TAMIS" compare store plain b
    ok "$TAMIS" compare store b cut
    mv "$(list_file r)" away
    fails 3 "segment 'r': its list: .*No such file.*the filters allow no comparison" \
        "$TAMIS" compare store a r
    fails 2 "a filter of kind ribbon allows no comparison" "$TAMIS" compare store plain r
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
    # A list has each key once; a filter cannot tell repeats from other keys.
    cat a a | "$TAMIS" build store a --replaces a --list -q
    ok "$TAMIS" ls store a --json
    [ "$(jq -c '.[] | [.keys, .list.hashes]' <<<"$output")" = '[6000,3000]' ]
    ok "$TAMIS" help ls
    grep -q 'a repeat counts' <<<"$(tr '\n' ' ' <<<"$output")"
}

@test "a fold in the place of its source keeps the list" {
    "$TAMIS" init store
    seq 20000 >a
    "$TAMIS" build store --each a --list --fpr 0.01% -q
    lists() {
        "$TAMIS" ls store --json | jq -c 'map(select(.list) | [.segment, .list.hashes])'
    }
    # Another segment has no part of it, and no list of its own.
    ok "$TAMIS" fold store b a --fpr 5%
    [ "$(lists)" = '[["a",20000]]' ]
    ok "$TAMIS" fold store a a --fpr 5% --bind c0ffee --replaces a
    [ "$(lists)" = '[["a",20000]]' ]
    [ "$(find store/filters -type f | wc -l)" -eq 3 ]
    ok "$TAMIS" verify store a --against-list
    ok "$TAMIS" repair store
    prints '^nothing to do: 2 segments'
    ok "$TAMIS" backup store copy
    ok "$TAMIS" verify copy
    ok "$TAMIS" build store a --from-list --fpr 0.1%
    ok "$TAMIS" fold store a a --by 1 --replaces a --json
    [ "$(lists)" = '[["a",20000]]' ]
    # A union has other keys.
    ok "$TAMIS" union store a a b --replaces a
    [ "$(lists)" = '[]' ]
    [ "$(find store/filters -type f | wc -l)" -eq 2 ]
}

# list_of SEGMENT: the file of its list.
list_of() {
    for file in store/filters/*; do
        "$TAMIS" file show "$file" >shown 2>&1 || true
        if grep -qE ' kind +5$' shown && grep -qE " name +'?$1'?\$" shown; then echo "$file"; fi
    done
}

@test "merge and build --from-list name the segment whose list does not do" {
    "$TAMIS" init store
    seq 1000 >a
    seq 500 2000 >b
    "$TAMIS" build store a a --list -q
    "$TAMIS" build store cut b --list=40 -q
    "$TAMIS" build store bit b --list=1 -q
    "$TAMIS" build store none b -q
    local whole="a filter needs all 64: build the segment anew with --list$"
    fails 2 "^tamis: store: the list of segment 'cut' has 40 bits of each hash: $whole" "$TAMIS" merge store new a cut
    fails 2 "segment 'bit' has 1 bit of each hash: $whole" "$TAMIS" merge store new bit cut
    fails 2 "segment 'bit' has 1 bit of each hash: $whole" "$TAMIS" build store bit --from-list
    for command in "merge store new a none" "build store none --from-list"; do
        fails 5 "^tamis: store: segment 'none' has no list of its hashes: build it with one$" "$TAMIS" $command
    done
    file=$(list_of a)
    mv "$file" kept
    wrong() {
        for command in "merge store new a a" "build store a --from-list"; do
            fails "$1" "^tamis: $file: the list of segment 'a': .*$2.*: build the segment anew from its keys$" \
                "$TAMIS" $command
        done
        rm -rf "$file"
    }
    wrong 4 "No such file or directory"
    touch "$file"
    wrong 3 "empty"
    mkdir "$file"
    wrong 3 "Is a directory"
    mkfifo "$file"
    wrong 3 "not a regular file"
    cp "$("$TAMIS" ls store a --json | jq -r '"store/" + .[0].file')" "$file"
    wrong 3 "UUID differs"
    cp kept "$file"
    poke "$file" 4200 '\0377\0376\0375'
    wrong 3 "page 1 of 2 fails its check"
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
    "$TAMIS" repair store >/dev/null || true
    "$TAMIS" build store b a --list -q
    rm -r copy
    fails 3 "copied, but 1 file left out: " "$TAMIS" backup store copy
    prints '2 segments, 3 files, '
}

@test "merge without space names the file by its path" {
    "$TAMIS" init store
    seq 20000 >a
    "$TAMIS" build store a a --list -q
    fails 4 "^tamis: store/filters/[0-9a-f]{32}.tamis: cannot write[^:]*: File too large" \
        bash -c 'ulimit -f 60; exec "$TAMIS" merge store new a a'
    mkdir d
    "$TAMIS" file build one.list a --list -q
    fails 4 "^tamis: d/two.list: cannot write[^:]*: File too large" \
        bash -c 'ulimit -f 60; exec "$TAMIS" file merge d/two.list one.list'
}

# Each is ended as it writes the first or the last bytes of its first file.
@test "ended by a signal, an edit leaves no file of it in the store" {
    "$TAMIS" init store
    seq 50000 >a
    seq 30000 60000 >b
    "$TAMIS" build store --each a b --list -q
    find store/filters | sort >before
    ended() {
        local signal=$1 when=$2
        shift 2
        run -$((128 + $(kill -l "$signal"))) env ASAN_OPTIONS=detect_leaks=0 --default-signal="$signal" bash -c \
            'ulimit -c 0; exec "$@"' - strace -f -qq -o /dev/null -e trace=pwrite64 \
            -e inject=pwrite64:signal="$signal":when="$when" "$@"
        [ -z "$output" ]
        find store/filters | sort | diff before -
    }
    for signal in INT TERM; do
        for when in 1 4; do ended $signal $when "$TAMIS" merge store ab a b --replaces; done
        for when in 1 3; do
            ended $signal $when "$TAMIS" build store c a --list -q --jobs 1
            ended $signal $when "$TAMIS" build store --each a b --replaces a --replaces b -q --jobs 1
        done
        ended $signal 1 "$TAMIS" build store a --from-list --fpr 0.1% -q --jobs 1
        ended $signal 1 "$TAMIS" fold store c a --fpr 5%
    done
    "$TAMIS" verify store
    # One that waits for keys is ended, too.
    mkfifo keys
    exec 9<>keys
    env --default-signal=INT "$TAMIS" build store c - -q <keys &
    soon grep -q 'State:.S' /proc/$!/status
    kill -INT $!
    code=0
    wait $! || code=$?
    [ "$code" -eq 130 ]
}
