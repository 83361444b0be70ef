# Filters and lists made from lists of hashes, without keys.
load ../common

@test "file merge: each hash once, and what cannot be merged is refused" {
    seq 1000 >a.keys
    seq 501 2000 >b.keys
    printf 'x\n' >c.keys
    for f in a b c; do tamis file build $f.list $f.keys --list --seed 00000000000000aa -q; done
    tells '^all.list: 2001 keys of 3 lists, 500 repeats, ' tamis file merge all.list a.list b.list c.list
    cat a.keys b.keys c.keys >all.keys
    ok tamis file verify all.list --against all.keys
    tells '"repeats": 1000' tamis file merge again.list all.list a.list --json
    tamis file build cut.list a.keys --list=40 --seed 00000000000000aa -q
    fails 2 "merge lists of one width" tamis file merge no.list a.list cut.list
    tamis file build other.list a.keys --list -q
    fails 3 "another hash or seed" tamis file merge no.list a.list other.list
    tamis file build f.tamis a.keys --seed 00000000000000aa -q
    fails 2 "not a list of hashes" tamis file merge no.list a.list f.tamis
    poke b.list 5000 '\0377\0377\0377'
    fails 3 "b.list: page .* fails its check" tamis file merge no.list a.list b.list
    fails 2 "all.list: exists already" tamis file merge all.list a.list
    [ ! -e no.list ]
    [ -z "$(find . -name '*.tmp')" ]
}

@test "file compare says why two lists cannot be counted" {
    seq 100 >keys
    for n in 1 2; do tamis file build $n.list keys --list --seed 000000000000000$n -q; done
    tamis file build cut.list keys --list=40 --seed 0000000000000001 -q
    fails 3 "^tamis: 2.list: another hash or seed than the first one's: " tamis file compare 1.list 2.list
    fails 2 "^tamis: cut.list: has 40 bits of each hash: compare lists of all 64$" tamis file compare 1.list cut.list
    fails 2 "^tamis: cut.list: has 40 bits" tamis file compare cut.list cut.list
    ok tamis file compare 1.list 1.list
    tamis file build bloom keys --seed 0000000000000001 -q
    for pair in "1.list bloom" "bloom cut.list"; do
        fails 2 "list: a filter of kind list allows no comparison: .*, or merge the lists$" tamis file compare $pair
    done
}

@test "a name with a space is written as it is" {
    tamis init store
    seq 5000 | tamis build store 'my seg' --list=30 -q
    fails 2 "the list of segment 'my seg' has 30 bits" tamis build store 'my seg' --from-list
}

@test "merge: segments by their lists, and the old ones go" {
    build_of a=3000 b=2001..5000 --list
    build_of c=10
    fails 5 "segment 'c' has no list" tamis merge store new a b c
    tells '^new: 5000 keys of 2 lists, 1000 repeats' tamis merge store new a b --replaces
    gives $'c\nnew' tamis ls store --names
    [ "$(find store/filters -type f | wc -l)" -eq 3 ]
    cat a b >all
    ok tamis verify store new --against all
    fails 2 "segment 'new' exists already" tamis merge store new c
}

@test "build --from-list: another error, without keys" {
    build_of s=20000 --list --bind c0ffee --rank 3
    before=$(stat -c %s store/filters/* | sort -n | head -n 1)
    ok tamis build store s --from-list --fpr 0.01%
    tells '"error": 0.0001' tamis ls store --json
    prints '"rank": 3'
    prints '"binding": "c0ffee"'
    [ "$(stat -c %s store/filters/* | sort -n | head -n 1)" -gt "$before" ]
    ok tamis verify store s --against s
    tamis build store plain s -q
    fails 5 "has no list of its hashes" tamis build store plain --from-list
    tamis build store cut s --list=50 -q
    fails 2 "50 bits of each hash: a filter needs all 64" tamis build store cut --from-list
    fails 5 "nowhere" tamis build store nowhere --from-list
    fails 2 "reads no keys" tamis build store s s --from-list
    for option in --list --bare "--rank 3" "--replaces s" "--bind 01" --hex --empty; do
        fails 2 "--from-list changes only the filter: leave out ${option% *}: see" tamis build store s --from-list $option
    done
}

@test "build --from-list and merge make a ribbon" {
    build_of a=50000 b=50001..90000 --list
    before=$(tamis ls store a --json | jq '.[0].bytes')
    ok tamis build store a --from-list --kind ribbon --fpr 1%
    [ "$(tamis ls store a --json | jq '.[0].bytes')" -lt $((before * 5 / 6)) ]
    ok tamis verify store a --against a
    ok tamis merge store a a b --kind ribbon --replaces
    cat a b >all
    ok tamis verify store a --against all
    [ "$(tamis ls store a --json | jq '.[0].bytes')" -lt 100000 ]
}

@test "a ribbon that is made from its list stays one" {
    build_of a=50000 --list --kind ribbon
    tamis build store b a --list -q
    bytes() { tamis ls store "$1" --json | jq '.[0].bytes'; }
    ribbon=$(bytes a)
    ok tamis build store a --from-list --fpr 1%
    [ "$(bytes a)" -eq "$ribbon" ]
    flip "$(filter_of a)" 5000
    fails 3 "dealt with" tamis repair store
    [ "$(bytes a)" -eq "$ribbon" ]
    ok tamis build store a --from-list --fpr 1% --kind bloom
    [ "$(bytes a)" -gt "$ribbon" ]
    ok tamis build store a --from-list --kind ribbon --fpr 1%
    for how in "build store a --from-list" "repair store"; do # the record knows the kind
        rm "$(filter_of a)"
        run tamis $how
        [ "$(bytes a)" -eq "$ribbon" ]
    done
    ok tamis verify store a --against a
}

@test "plan --apply makes from lists what a fold cannot give" {
    build_of a=30000 b=100001..130000 --list --fpr 5%
    build_of c=200001..230000 --list=40 --fpr 5% --bind 0102
    ok tamis plan store --bytes 250K --apply
    [ "$(grep -c '^rebuilt  [ab] from its list: ' <<<"$output")" -eq 2 ]
    grep -q '^rebuild  c: tamis build store c KEYFILE .* --bind 0102 --list=40$' <<<"$output"
    prints ' taken; [0-9]+ bytes of filters now'
    ok tamis verify store a --against a
    [ "$(tamis ls store a --json | jq '.[0].error < 0.01')" = true ]
    ok tamis plan store --bytes 250K --apply
    ! grep '^rebuilt' <<<"$output" || explain "nothing rebuilt again"
    # Without its list the keys are needed, and the new segment has a list again.
    poke "$(ls -S store/filters/* | head -n 1)" 9000 '\0377\0376\0375'
    fails 3 "^tamis: store: 1 segment with a list that cannot be read, so not as planned: build them anew from their keys$" \
        tamis plan store --bytes 600K --apply
    grep -q "^unread   the list of segment '[ab]': .*fails its check" <<<"$output"
    grep -q '^rebuild  [ab]: tamis build store [ab] KEYFILE .* --replaces [ab] --list$' <<<"$output"
    grep -q '^rebuild  c: tamis build .* --bind 0102 --list=40$' <<<"$output"
    rm "$(list_of c)"
    fails 3 "2 segments with a list that cannot be read, so not as planned: build them" \
        tamis plan store --bytes 600K --apply
    grep -q '^rebuild  c: tamis build .* --bind 0102 --list$' <<<"$output"
}

@test "plan --apply that fails: what is left needs no keys where there are lists" {
    build_of a=30000 b=100001..130000 --list --fpr 5%
    tamis build store c a --fpr 5% -q
    fails 4 "File too large" bash -c 'ulimit -f 64; tamis plan store --bytes 300K --apply'
    [ "$(grep -c '^rebuild  [ab]: tamis build store [ab] --from-list --fpr [0-9.e-]*$' <<<"$output")" -eq 2 ]
    grep -q '^rebuild  c: tamis build store c KEYFILE --fpr [0-9.e-]* --replaces c$' <<<"$output"
    fpr=$(sed -n 's/^rebuild  a: .*--fpr //p' <<<"$output")
    ok tamis build store a --from-list --fpr "$fpr"
    ok tamis verify store --against-list
    ok tamis plan store --bytes 300K --apply
    grep -q '^rebuilt  b from its list: ' <<<"$output"
}

@test "a fold in the place of its source keeps the list" {
    build_of a=20000 --list --fpr 0.01%
    lists() {
        tamis ls store --json | jq -c 'map(select(.list) | [.segment, .list.hashes])'
    }
    # Another segment has no part of it, and no list of its own.
    ok tamis fold store b a --fpr 5%
    [ "$(lists)" = '[["a",20000]]' ]
    ok tamis fold store a a --fpr 5% --bind c0ffee --replaces a
    [ "$(lists)" = '[["a",20000]]' ]
    [ "$(find store/filters -type f | wc -l)" -eq 3 ]
    ok tamis verify store a --against-list
    tells '^nothing to do: 2 segments' tamis repair store
    ok tamis backup store copy
    ok tamis verify copy
    ok tamis build store a --from-list --fpr 0.1%
    ok tamis fold store a a --by 1 --replaces a --json
    [ "$(lists)" = '[["a",20000]]' ]
    # A union has other keys.
    ok tamis union store a a b --replaces a
    [ "$(lists)" = '[]' ]
    [ "$(find store/filters -type f | wc -l)" -eq 2 ]
}

@test "merge and build --from-list name the segment whose list does not do" {
    build_of a=1000 --list
    seq 500 2000 >b
    tamis build store cut b --list=40 -q
    tamis build store bit b --list=1 -q
    tamis build store none b -q
    local whole="a filter needs all 64: build the segment anew with --list$"
    fails 2 "^tamis: store: the list of segment 'cut' has 40 bits of each hash: $whole" tamis merge store new a cut
    fails 2 "segment 'bit' has 1 bit of each hash: $whole" tamis merge store new bit cut
    fails 2 "segment 'bit' has 1 bit of each hash: $whole" tamis build store bit --from-list
    for command in "merge store new a none" "build store none --from-list"; do
        fails 5 "^tamis: store: segment 'none' has no list of its hashes: build it with one$" tamis $command
    done
    file=$(list_of a)
    mv "$file" kept
    wrong() {
        for command in "merge store new a" "build store a --from-list"; do
            fails "$1" "^tamis: $file: the list of segment 'a': .*$2.*[,:] (or )?build the segment anew from its keys$" \
                tamis $command
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
    cp "$(tamis ls store a --json | jq -r '"store/" + .[0].file')" "$file"
    wrong 3 "UUID differs"
    cp kept "$file"
    poke "$file" 4200 '\0377\0376\0375'
    wrong 3 "page 1 of 2 fails its check"
}

@test "merge without space names the file by its path" {
    build_of a=20000 --list
    fails 4 "^tamis: store/filters/[0-9a-f]{32}.tamis: cannot write[^:]*: File too large" \
        bash -c 'ulimit -f 60; exec tamis merge store new a'
    mkdir d
    tamis file build one.list a --list -q
    fails 4 "^tamis: d/two.list: cannot write[^:]*: File too large" \
        bash -c 'ulimit -f 60; exec tamis file merge d/two.list one.list'
}
