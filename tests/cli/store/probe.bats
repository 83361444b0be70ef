# Probing a store: every answer and every reason.
load ../common

@test "one line per pair that may be, one for a key that is nowhere" {
    make_store
    gives $'a\tone\tHIT\nc\tone\tHIT\nc\ttwo\tHIT\nnope\t-\tABSENT' tamis probe store a c nope
    printf 'a\nnope\n' >k
    gives $'a\tone\tHIT\nnope\t-\tABSENT' tamis probe store --keys k
    gives $'-x\t-\tABSENT' tamis probe store -- -x
}

@test "keys that are given in hex are printed in hex" {
    tamis init store
    printf '00ff\n61\n0a5c\n' | tamis build store one --hex
    gives $'00ff\tone\tHIT\n61\tone\tHIT\n\t-\tABSENT\n62\t-\tABSENT' tamis probe store --hex 00FF 61 "" 62
    printf '0a5c\nFE\n' >k
    gives $'0a5c\tone\tHIT\nfe\t-\tABSENT' tamis probe store --hex --keys k
    [ "$(tamis probe store --hex --keys k --json | jq -r .key_hex)" = $'0a5c\nfe' ]
    gives $'61\tone\tHIT\nfe\t-\tABSENT' tamis file probe store/filters/*.tamis --hex 61 FE
    run tamis verify store one --against k --hex
    [ "${lines[1]}" = $'lost\tfe\tone' ]
    run tamis verify store one --against k --hex --json
    [[ $output == *'"key_hex": "fe"'* ]]
    # Only those.
    gives $'00ff\t-\tABSENT' tamis probe store 00ff
}

@test "--explain: the key range, or which stage, lane and offset" {
    tamis init store
    printf 'a\nc\n' | tamis build store one
    seq 2000 | tamis grow store g --n0 500
    tamis build store bare --bare
    ok tamis probe store --explain a zz
    at='lane 0 lacks a bit at [0-9]+'
    prints $'^a\tbare\tNO_FILTER\trange and filter not checked\n'
    prints $'\na\tg\tABSENT\tfilter: stage 0, '"$at; stage 1, $at; stage 2, $at"$'\n'
    prints $'\na\tone\tHIT\tfilter: stage 0 has every bit\n'
    prints $'\nzz\tone\tABSENT\tkey range$'
    # A key between the two is the filter's affair; all agree: the usual line as well.
    ok tamis probe store --explain b --segment one --segment g
    prints $'^b\tone\tABSENT\tfilter: stage 0, '"$at"$'\n'
    [ "${lines[-1]}" = $'b\t-\tABSENT' ]
    # A damaged page, and where.
    tamis file build f.tamis <(echo a)
    poke f.tamis 4096 '\001\002\003'
    ok tamis file probe f.tamis a --explain
    [ "$output" = $'a\tf.tamis\tDAMAGED\tfilter: stage 0, lane 0 has a damaged page at 4096' ]
    tamis probe store --explain --json a zz | jq -se '
        .[0].explained == [{segment: "bare", says: "NO_FILTER", by: "nothing", stages: []},
            (.[0].explained[1] | select(.by == "filter" and (.stages | length) == 3)),
            {segment: "one", says: "HIT", by: "filter", stages: [{says: "HIT"}]}]
        and .[1].explained[2] == {segment: "one", says: "ABSENT", by: "range", stages: []}
        and (.[0].candidates | map(.segment)) == ["bare", "one"]'
    # The answers are the same without.
    seq 1990 2100 >k
    cmp <(tamis probe store --keys k --explain | grep -v ABSENT | cut -f 1-3) \
        <(tamis probe store --keys k | grep -v ABSENT)
    fails 2 "--explain prints each answer" tamis probe store a --explain --quiet
    fails 2 "--explain prints each answer" tamis probe store a --explain --count
}

@test "--quiet: 0 maybe, 10 absent, and errors are neither" {
    make_store
    ok tamis probe store --quiet a
    exits 10 tamis probe store -q nope
    [ -z "$output$stderr" ]
    fails 5 "none" tamis probe none -q a
    exits 10 tamis probe store -q d --segment one
}

@test "--segment restricts; an unknown one is MAYBE, and said" {
    make_store
    gives $'a\t-\tABSENT\nc\ttwo\tHIT' tamis probe store a c --segment two
    gives $'c\ttwo\tHIT\nc\tone\tHIT' tamis probe store c --segment two --segment one
    fails 5 "no segment 'none'" tamis probe store nope --segment none
    [ "$output" = $'nope\tnone\tUNKNOWN_SEGMENT' ]
    exits 0 tamis probe store nope -q --segment none
    [ -z "$output" ]
    [[ $stderr =~ "no segment 'none'" ]]
}

@test "--bind: another binding is MISMATCH" {
    tamis init store
    echo a | tamis build store one --bind 00aaff
    tells ABSENT tamis probe store nope --segment one --bind 00aaff
    fails 3 "'one' has another binding" tamis probe store nope --segment one --bind 00aa
    [ "$output" = $'nope\tone\tMISMATCH' ]
    exits 0 tamis probe store nope -q --segment one --bind 00aa
}

@test "--min-watermark: filters that are behind say so" {
    make_store
    echo x | tamis grow store g --watermark 5
    tells ABSENT tamis probe store nope --segment g --min-watermark 5
    gives $'nope\tg\tBEHIND' tamis probe store nope --segment g --min-watermark 6
    tells $'nope\tg\tBEHIND' tamis probe store nope --min-watermark 6
}

@test "--count: totals only" {
    make_store
    printf 'a\nc\nnope\n' >k
    ok tamis probe store --keys k --count
    [ "${#lines[@]}" -eq 5 ]
    prints 'keys +3'
    prints 'pairs +6'
    prints 'maybe_pairs +3'
    prints 'absent_pairs +3'
    prints 'absent_keys +1'
    tells '"maybe_pairs": 3' tamis probe store --keys k --count --json
    tells 'keys +0' tamis probe store --keys /dev/null --count
}

@test "--json: an object per key" {
    make_store
    ok tamis probe store c nope --json
    [ "${lines[0]}" = '{"key":"c","candidates":[{"segment":"one","reason":"HIT"},{"segment":"two","reason":"HIT"}],"answer":"MAYBE"}' ]
    [ "${lines[1]}" = '{"key":"nope","candidates":[],"answer":"ABSENT"}' ]
}

@test "a lost file, a damaged page, a broken header, a newer version" {
    make_store # "bb" lies within the key range of one, outside that of two
    file=$(filter_of one)
    cp "$file" saved
    mv "$file" away
    gives $'bb\tone\tFILE_LOST' tamis probe store bb
    fails 3 "^tamis: store/filters/.*\.tamis: .*: build" tamis verify store
    prints $'one\tlost\t'
    prints $'two\tok\t'

    cp saved "$file"
    flip "$file" 4200
    gives $'bb\tone\tDAMAGED' tamis probe store bb
    fails 3 "^tamis: .*$file: .*offset 4096" tamis verify store
    prints $'one\tdamaged\t.*offset 4096'
    fails 3 "." tamis verify store --json
    prints '"damaged_segments": 1'

    cp saved "$file"
    poke "$file" 8 '\x63'
    ok tamis probe store bb -q
    gives $'bb\tone\tUNREADABLE' tamis probe store bb
    fails 3 "version that this tamis does not read" tamis verify store one

    cp saved "$file"
    truncate -s 4096 "$file"
    ok tamis probe store bb -q
    cp "$(filter_of two)" "$file"
    tells $'^bb\tone\t(MISMATCH|FILE_LOST|UNREADABLE)$' tamis probe store bb
    rm "$file"
    mkfifo "$file"
    tells $'^bb\tone\t' timeout 60 tamis probe store bb
    cp saved new && rm "$file" && mv new "$file"
    tells ABSENT tamis probe store bb
    ok tamis verify store
}

@test "verify finds lost keys, also when the pages are whole" {
    make_store
    printf 'a\nb\nx\ny\n' >k
    fails 3 "^tamis: store: 2 keys not in" tamis verify store one --against k
    prints $'lost\tx\tone\nlost\ty\tone'
    prints "checked 4 keys in 1 segment: 2 lost"
    seq 100 >k
    fails 3 "100 keys" tamis verify store two --against k
    prints "and 90 more"
    cp k one
    fails 3 "keys not in" tamis verify store --against-each one
    printf 'c\nd\n' >two
    tells "checked 2 keys in 1 segment: 0 lost" tamis verify store --against-each two
    fails 5 "no segment 'k'" tamis verify store --against-each k
    tells '"lost": 0' tamis verify store two --against two --json
}

@test "verify while segments are replaced, dropped and lost" {
    ok tamis init store
    for s in first replaced dropped lost; do echo $s | tamis build store $s; done
    echo replaced >replaced
    touch dropped lost
    mkfifo first # it stops there
    tamis verify store --against-each first replaced lost dropped >out 2>err 3>&- &
    pid=$!
    exec 7>first
    soon waits_with "$pid" first
    echo new | tamis build store replaced --replaces replaced
    tamis drop store dropped
    rm "$(filter_of lost)"
    exec 7>&-
    ends_with 2 $pid
    cat out err
    [ "$(cut -f 1-2 out | sed -n '1,2p;4p')" = $'first\tok\nreplaced\tok\nlost\tlost' ]
    # Its new filter was asked: it has another key.
    grep -q $'^lost\treplaced\treplaced$' out
    [ "$(wc -l <err)" -eq 1 ]
}
