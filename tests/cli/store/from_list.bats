# Filters and lists made from lists of hashes, without keys.
load ../common

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

@test "file compare says why two lists cannot be counted" {
    seq 100 >keys
    for n in 1 2; do "$TAMIS" file build $n.list keys --list --seed 000000000000000$n -q; done
    "$TAMIS" file build cut.list keys --list=40 --seed 0000000000000001 -q
    fails 3 "^tamis: 2.list: another hash or seed than the first one's: " "$TAMIS" file compare 1.list 2.list
    fails 2 "^tamis: cut.list: has 40 bits of each hash: compare lists of all 64$" "$TAMIS" file compare 1.list cut.list
    fails 2 "^tamis: cut.list: has 40 bits" "$TAMIS" file compare cut.list cut.list
    ok "$TAMIS" file compare 1.list 1.list
    "$TAMIS" file build bloom keys --seed 0000000000000001 -q
    for pair in "1.list bloom" "bloom cut.list"; do
        # shellcheck disable=SC2086
        fails 2 "list: a list, and bloom is a filter: compare two lists, or two Bloom filters$" "$TAMIS" file compare $pair
    done
}

@test "a name with a space is written as it is" {
    "$TAMIS" init store
    seq 5000 | "$TAMIS" build store 'my seg' --list=30 -q
    fails 2 "the list of segment 'my seg' has 30 bits" "$TAMIS" build store 'my seg' --from-list
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
    for option in --list --bare "--rank 3" "--replaces s" "--bind 01" --hex --empty; do
        # shellcheck disable=SC2086
        fails 2 "--from-list changes only the filter: leave out ${option% *}: see" "$TAMIS" build store s --from-list $option
    done
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

@test "a ribbon that is made from its list stays one" {
    "$TAMIS" init store
    seq 50000 >a
    "$TAMIS" build store a a --list --kind ribbon -q
    "$TAMIS" build store b a --list -q
    bytes() { "$TAMIS" ls store "$1" --json | jq '.[0].bytes'; }
    ribbon=$(bytes a)
    ok "$TAMIS" build store a --from-list --fpr 1%
    [ "$(bytes a)" -eq "$ribbon" ]
    flip "$(filter_of a)" 5000
    fails 3 "dealt with" "$TAMIS" repair store
    [ "$(bytes a)" -eq "$ribbon" ]
    ok "$TAMIS" build store a --from-list --fpr 1% --for-packs
    [ "$(bytes a)" -gt "$ribbon" ]
    ok "$TAMIS" build store a --from-list --kind ribbon --fpr 1%
    # Nothing says any more what a lost filter was.
    rm "$(filter_of a)"
    fails 2 "^tamis: store: the filter of segment 'a' cannot be read, so nothing says whether it was a ribbon: choose --kind ribbon or --kind bloom$" \
        "$TAMIS" build store a --from-list
    fails 3 "dealt with" "$TAMIS" repair store
    grep -q $'^rebuilt\ta\t.*: made anew from its list as a Bloom filter, for its kind is unknown; if it was a ribbon, build it from its list with --kind ribbon$' <<<"$output"
    ok "$TAMIS" build store a --from-list --kind ribbon
    [ "$(bytes a)" -eq "$ribbon" ]
    ok "$TAMIS" verify store a --against a
}

@test "the kind of a filter whose pack is lost is known: packs have no ribbons" {
    "$TAMIS" init store
    seq 5000 >k
    "$TAMIS" build store r k --list --kind ribbon -q
    for s in a b; do "$TAMIS" build store $s k --list --for-packs -q; done
    "$TAMIS" pack store -q
    pack=$(filter_of a)
    [ "$pack" = "$(filter_of b)" ]
    rm "$pack"
    ok "$TAMIS" build store a --from-list
    ok "$TAMIS" verify store a --against k
    fails 3 "" "$TAMIS" repair store
    grep -q $'^rebuilt\tb\t.*: made anew from its list$' <<<"$output"
    ok "$TAMIS" verify store b --against k
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
    grep -q '^rebuild  c: tamis build store c KEYFILE .* --bind 0102 --list=40$' <<<"$output"
    prints ' taken; [0-9]+ bytes of filters now'
    ok "$TAMIS" verify store a --against a
    [ "$("$TAMIS" ls store a --json | jq '.[0].error < 0.01')" = true ]
    ok "$TAMIS" plan store --bytes 250K --apply
    ! grep '^rebuilt' <<<"$output" || explain "nothing rebuilt again"
    # Without its list the keys are needed, and the new segment has a list again.
    poke "$(ls -S store/filters/* | head -n 1)" 9000 '\0377\0376\0375'
    fails 3 "^tamis: store: the list of 1 segment cannot be read, so its filter is not as planned: build it anew from its keys$" \
        "$TAMIS" plan store --bytes 600K --apply
    grep -q "^unread   the list of segment '[ab]': .*fails its check" <<<"$output"
    grep -q '^rebuild  [ab]: tamis build store [ab] KEYFILE .* --replaces [ab] --list$' <<<"$output"
    grep -q '^rebuild  c: tamis build .* --bind 0102 --list=40$' <<<"$output"
    rm "$(list_of c)"
    fails 3 "the lists of 2 segments cannot be read, so their filters are not as planned: build them" \
        "$TAMIS" plan store --bytes 600K --apply
    grep -q '^rebuild  c: tamis build .* --bind 0102 --list$' <<<"$output"
}

@test "plan --apply without a list does the other segments, then exits 3" {
    "$TAMIS" init store
    seq 30000 >a
    seq 100001 130000 >b
    "$TAMIS" build store --each a b --list --fpr 5% -q
    list=$(list_of a)
    mv "$list" kept
    cp -r store damaged
    for wrong in true mkdir touch mkfifo "ln -s kept" "cp $(filter_of b)"; do
        rm -r store
        cp -r damaged store
        [ "$wrong" = true ] || $wrong "$list"
        fails 3 "^tamis: store: the list of 1 segment cannot be read" "$TAMIS" plan store --bytes 200K --apply
        [[ $output == "unread   the list of segment 'a': "* ]] || explain "$wrong"
        grep -q '^rebuilt  b from its list: ' <<<"$output"
        grep -q '^rebuild  a: tamis build store a KEYFILE .* --list$' <<<"$output"
        fails 3 "the list of 1 segment" "$TAMIS" plan store --bytes 200K --apply
    done
}

@test "plan --apply that fails: what is left needs no keys where there are lists" {
    "$TAMIS" init store
    seq 30000 >a
    seq 100001 130000 >b
    "$TAMIS" build store --each a b --list --fpr 5% -q
    "$TAMIS" build store c a --fpr 5% -q
    fails 4 "File too large" bash -c 'ulimit -f 64; "$TAMIS" plan store --bytes 300K --apply'
    [ "$(grep -c '^rebuild  [ab]: tamis build store [ab] --from-list --fpr [0-9.e-]*$' <<<"$output")" -eq 2 ]
    grep -q '^rebuild  c: tamis build store c KEYFILE --fpr [0-9.e-]* --replaces c$' <<<"$output"
    fpr=$(sed -n 's/^rebuild  a: .*--fpr //p' <<<"$output")
    ok "$TAMIS" build store a --from-list --fpr "$fpr"
    ok "$TAMIS" verify store --against-list
    ok "$TAMIS" plan store --bytes 300K --apply
    grep -q '^rebuilt  b from its list: ' <<<"$output"
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
        for command in "merge store new a" "build store a --from-list"; do
            fails "$1" "^tamis: $file: the list of segment 'a': .*$2.*: build the segment anew from its keys$" \
                "$TAMIS" $command
        done
        rm -rf "$file"
    }
    wrong 3 "No such file or directory"
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

@test "merge without space names the file by its path" {
    "$TAMIS" init store
    seq 20000 >a
    "$TAMIS" build store a a --list -q
    fails 4 "^tamis: store/filters/[0-9a-f]{32}.tamis: cannot write[^:]*: File too large" \
        bash -c 'ulimit -f 60; exec "$TAMIS" merge store new a'
    mkdir d
    "$TAMIS" file build one.list a --list -q
    fails 4 "^tamis: d/two.list: cannot write[^:]*: File too large" \
        bash -c 'ulimit -f 60; exec "$TAMIS" file merge d/two.list one.list'
}

# ends SIGNAL N COMMAND...: the command ends by the signal, which comes at its Nth write.
ends() {
    local signal=$1 when=$2
    shift 2
    run -$((128 + $(kill -l "$signal"))) env --default-signal="$signal" ASAN_OPTIONS=detect_leaks=0 bash -c \
        'ulimit -c 0; exec "$@"' - strace -f -qq -o /dev/null -e trace=pwrite64 \
        -e inject=pwrite64:signal="$signal":when="$when" "$@"
}

# ended, as ends: nothing is said, and the files are those of `before`.
ended() {
    ends "$@"
    [ -z "$output" ]
    find store/filters | sort | diff before -
}

# Each is ended as it writes the first or the last bytes of its first file.
@test "ended by a signal, an edit leaves no file of it in the store" {
    "$TAMIS" init store
    seq 50000 >a
    seq 30000 60000 >b
    "$TAMIS" build store --each a b --list -q
    find store/filters | sort >before
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

@test "ended by a signal, plan --apply keeps the edits that are done, and no other file" {
    "$TAMIS" init store
    seq 50000 >a
    seq 30000 60000 >b
    "$TAMIS" build store --each a b --list -q
    local plan=("$TAMIS" plan store --bytes 240K --apply)
    find store/filters | sort >before
    for signal in INT TERM; do
        for when in 1 2; do ended $signal $when "${plan[@]}"; done # from lists
    done
    "$TAMIS" build store big a --fpr 1e-6 -q
    find store/filters | sort >before
    for signal in INT TERM; do
        for when in 1 2; do ended $signal $when "${plan[@]}"; done # a fold
    done
    # In the commit of the fold, then in the edit behind it.
    cp -a store kept
    for when in 4 6; do
        ends INT $when "${plan[@]}"
        [[ $output = "shrunk   big: "* ]]
        [ "$(find store/filters | wc -l)" -eq "$(wc -l <before)" ]
        [ "$("$TAMIS" ls store --json | jq -c 'map(.error == 1e-6)')" = '[false,false,false]' ]
        [ "$(find store/filters | sort | comm -12 before - | wc -l)" -eq $(($(wc -l <before) - 1)) ]
        "$TAMIS" verify store
        rm -r store
        cp -a kept store
    done
}

@test "repair leaves a damaged filter whose list it cannot read" {
    "$TAMIS" init store
    seq 1 2000 >a
    "$TAMIS" build store a a --list -q
    flip "store/$("$TAMIS" ls store a --json | jq -r '.[0].file')" 4200
    list=$(list_of a)
    mv "$list" kept
    mkdir "$list"
    fails 3 "left as noted" "$TAMIS" repair store
    grep -q $'^noted\ta\t.*left, for its list may make it anew$' <<<"$output"
    rmdir "$list"
    mv kept "$list"
    fails 3 "dealt with" "$TAMIS" repair store
    grep -q $'^rebuilt\ta\t.*made anew from its list$' <<<"$output"
    ok "$TAMIS" verify store a --against a
    ok "$TAMIS" verify store --against-list
}

@test "a backup keeps the list of a segment whose filter is missing" {
    "$TAMIS" init store
    seq 1 2000 >a
    "$TAMIS" build store a a --list -q
    rm "store/$("$TAMIS" ls store a --json | jq -r '.[0].file')"
    fails 3 "1 file left out" "$TAMIS" backup store copy
    fails 3 "dealt with" "$TAMIS" repair copy
    grep -q $'^rebuilt\ta\t.*made anew from its list$' <<<"$output"
    ok "$TAMIS" verify copy a --against a
    ok "$TAMIS" verify copy --against-list
}
