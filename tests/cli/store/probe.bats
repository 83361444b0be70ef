# Probing a store: every answer and every reason.
load ../common

@test "one line per pair that may be, one for a key that is nowhere" {
    make_store
    ok "$TAMIS" probe store a c nope
    [ "$output" = $'a\tone\tHIT\nc\tone\tHIT\nc\ttwo\tHIT\nnope\t-\tABSENT' ]
    printf 'a\nnope\n' >k
    ok "$TAMIS" probe store --keys k
    [ "$output" = $'a\tone\tHIT\nnope\t-\tABSENT' ]
    ok "$TAMIS" probe store -- -x
    [ "$output" = $'-x\t-\tABSENT' ]
}

@test "keys that are given in hex are printed in hex" {
    "$TAMIS" init store
    printf '00ff\n61\n0a5c\n' | "$TAMIS" build store one --hex
    ok "$TAMIS" probe store --hex 00FF 61 "" 62
    [ "$output" = $'00ff\tone\tHIT\n61\tone\tHIT\n\t-\tABSENT\n62\t-\tABSENT' ]
    printf '0a5c\nFE\n' >k
    ok "$TAMIS" probe store --hex --keys k
    [ "$output" = $'0a5c\tone\tHIT\nfe\t-\tABSENT' ]
    [ "$("$TAMIS" probe store --hex --keys k --json | jq -r .key_hex)" = $'0a5c\nfe' ]
    ok "$TAMIS" file probe store/filters/*.tamis --hex 61 FE
    [ "$output" = $'61\tone\tHIT\nfe\t-\tABSENT' ]
    run "$TAMIS" verify store one --against k --hex
    [ "${lines[1]}" = $'lost\tfe\tone' ]
    run "$TAMIS" verify store one --against k --hex --json
    [[ $output == *'"key_hex": "fe"'* ]]
    # Only those.
    ok "$TAMIS" probe store 00ff
    [ "$output" = $'00ff\t-\tABSENT' ]
}

@test "--explain: the key range, or which stage, lane and offset" {
    "$TAMIS" init store
    printf 'a\nc\n' | "$TAMIS" build store one
    seq 2000 | "$TAMIS" grow store g --n0 500
    "$TAMIS" build store bare --bare
    ok "$TAMIS" probe store --explain a zz
    at='lane 0 lacks a bit at [0-9]+'
    prints $'^a\tbare\tNO_FILTER\trange and filter not checked\n'
    prints $'\na\tg\tABSENT\tfilter: stage 0, '"$at; stage 1, $at; stage 2, $at"$'\n'
    prints $'\na\tone\tHIT\tfilter: stage 0 has every bit\n'
    prints $'\nzz\tone\tABSENT\tkey range$'
    # A key between the two is the filter's affair; all agree: the usual line as well.
    ok "$TAMIS" probe store --explain b --segment one --segment g
    prints $'^b\tone\tABSENT\tfilter: stage 0, '"$at"$'\n'
    [ "${lines[-1]}" = $'b\t-\tABSENT' ]
    # A damaged page, and where.
    "$TAMIS" file build f.tamis <(echo a)
    poke f.tamis 4096 '\001\002\003'
    ok "$TAMIS" file probe f.tamis a --explain
    [ "$output" = $'a\tf.tamis\tDAMAGED\tfilter: stage 0, lane 0 has a damaged page at 4096' ]
    "$TAMIS" probe store --explain --json a zz | jq -se '
        .[0].explained == [{segment: "bare", says: "NO_FILTER", by: "nothing", stages: []},
            (.[0].explained[1] | select(.by == "filter" and (.stages | length) == 3)),
            {segment: "one", says: "HIT", by: "filter", stages: [{says: "HIT"}]}]
        and .[1].explained[2] == {segment: "one", says: "ABSENT", by: "range", stages: []}
        and (.[0].candidates | map(.segment)) == ["bare", "one"]'
    # The answers are the same without.
    seq 1990 2100 >k
    cmp <("$TAMIS" probe store --keys k --explain | grep -v ABSENT | cut -f 1-3) \
        <("$TAMIS" probe store --keys k | grep -v ABSENT)
    fails 2 "--explain prints each answer" "$TAMIS" probe store a --explain --quiet
    fails 2 "--explain prints each answer" "$TAMIS" probe store a --explain --count
}

@test "--quiet: 0 maybe, 10 absent, and errors are neither" {
    make_store
    ok "$TAMIS" probe store --quiet a
    run --separate-stderr "$TAMIS" probe store -q nope
    [ "$status" -eq 10 ]
    [ -z "$output$stderr" ]
    fails 5 "none" "$TAMIS" probe none -q a
    run --separate-stderr "$TAMIS" probe store -q d --segment one
    [ "$status" -eq 10 ]
}

@test "--segment restricts; an unknown one is MAYBE, and said" {
    make_store
    ok "$TAMIS" probe store a c --segment two
    [ "$output" = $'a\t-\tABSENT\nc\ttwo\tHIT' ]
    ok "$TAMIS" probe store c --segment two --segment one
    [ "$output" = $'c\ttwo\tHIT\nc\tone\tHIT' ]
    fails 5 "no segment 'none'" "$TAMIS" probe store nope --segment none
    [ "$output" = $'nope\tnone\tUNKNOWN_SEGMENT' ]
    run --separate-stderr "$TAMIS" probe store nope -q --segment none
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    [[ $stderr =~ "no segment 'none'" ]]
}

@test "an empty store proves nothing" {
    ok "$TAMIS" init store
    ok "$TAMIS" probe store k
    [ "$output" = $'k\t-\tUNKNOWN_SEGMENT' ]
    ok "$TAMIS" probe store k -q
}

@test "--bind: another binding is MISMATCH" {
    "$TAMIS" init store
    echo a | "$TAMIS" build store one --bind 00aaff
    ok "$TAMIS" probe store nope --segment one --bind 00aaff
    prints ABSENT
    fails 3 "'one' has another binding" "$TAMIS" probe store nope --segment one --bind 00aa
    [ "$output" = $'nope\tone\tMISMATCH' ]
    run "$TAMIS" probe store nope -q --segment one --bind 00aa
    [ "$status" -eq 0 ]
}

@test "--min-watermark: filters that are behind say so" {
    make_store
    echo x | "$TAMIS" grow store g --watermark 5
    ok "$TAMIS" probe store nope --segment g --min-watermark 5
    prints ABSENT
    ok "$TAMIS" probe store nope --segment g --min-watermark 6
    [ "$output" = $'nope\tg\tBEHIND' ]
    ok "$TAMIS" probe store nope --min-watermark 6
    prints $'nope\tg\tBEHIND'
}

@test "--count: totals only" {
    make_store
    printf 'a\nc\nnope\n' >k
    ok "$TAMIS" probe store --keys k --count
    [ "${#lines[@]}" -eq 5 ]
    prints 'keys +3'
    prints 'pairs +6'
    prints 'maybe_pairs +3'
    prints 'absent_pairs +3'
    prints 'absent_keys +1'
    ok "$TAMIS" probe store --keys k --count --json
    prints '"maybe_pairs": 3'
    ok "$TAMIS" probe store --keys /dev/null --count
    prints 'keys +0'
}

@test "--json: an object per key" {
    make_store
    ok "$TAMIS" probe store c nope --json
    [ "${lines[0]}" = '{"key":"c","answer":"MAYBE","candidates":[{"segment":"one","reason":"HIT"},{"segment":"two","reason":"HIT"}]}' ]
    [ "${lines[1]}" = '{"key":"nope","answer":"ABSENT","candidates":[]}' ]
}

@test "a lost file, a damaged page, a broken header, a newer version" {
    make_store # "bb" lies within the key range of one, outside that of two
    file=$(filter_of one)
    cp "$file" saved
    mv "$file" away
    ok "$TAMIS" probe store bb
    [ "$output" = $'bb\tone\tFILE_LOST' ]
    fails 3 "^tamis: store/filters/.*\.tamis: .*: build" "$TAMIS" verify store
    prints $'one\tlost\t'
    prints $'two\tok\t'

    cp saved "$file"
    flip "$file" 4200
    ok "$TAMIS" probe store bb
    [ "$output" = $'bb\tone\tDAMAGED' ]
    fails 3 "^tamis: .*$file: .*offset 4096" "$TAMIS" verify store
    prints $'one\tdamaged\t.*offset 4096'
    fails 3 "." "$TAMIS" verify store --json
    prints '"damaged_segments": 1'

    cp saved "$file"
    poke "$file" 8 '\x63'
    ok "$TAMIS" probe store bb -q
    ok "$TAMIS" probe store bb
    [ "$output" = $'bb\tone\tUNREADABLE' ]
    fails 3 "version that this tamis does not read" "$TAMIS" verify store one

    cp saved "$file"
    truncate -s 4096 "$file"
    ok "$TAMIS" probe store bb -q
    cp "$(filter_of two)" "$file"
    ok "$TAMIS" probe store bb
    prints $'^bb\tone\t(MISMATCH|FILE_LOST|UNREADABLE)$'
    rm "$file"
    mkfifo "$file"
    ok timeout 60 "$TAMIS" probe store bb
    prints $'^bb\tone\t'
    cp saved new && rm "$file" && mv new "$file"
    ok "$TAMIS" probe store bb
    prints ABSENT
    ok "$TAMIS" verify store
}

@test "verify finds lost keys, also when the pages are whole" {
    make_store
    printf 'a\nb\nx\ny\n' >k
    fails 3 "^tamis: store: 2 keys are not in" "$TAMIS" verify store one --against k
    prints $'lost\tx\tone\nlost\ty\tone'
    prints "checked 4 keys in 1 segment: 2 lost"
    seq 100 >k
    fails 3 "100 keys" "$TAMIS" verify store two --against k
    prints "and 90 more"
    cp k one
    fails 3 "keys are not in" "$TAMIS" verify store --against-each one
    printf 'c\nd\n' >two
    ok "$TAMIS" verify store --against-each two
    prints "checked 2 keys in 1 segment: 0 lost"
    fails 5 "no segment 'k'" "$TAMIS" verify store --against-each k
    ok "$TAMIS" verify store two --against two --json
    prints '"lost": 0'
}

@test "verify of one key says so" {
    make_store
    echo c >k
    ok "$TAMIS" verify store two --against k
    prints "checked 1 key in 1 segment: 0 lost"
    echo nope >k
    fails 3 "1 key is not in" "$TAMIS" verify store two --against k
    prints "checked 1 key in 1 segment: 1 lost"
}

# Starts tamis verify ARG..., which stops at the key list "first".
begin_verify() {
    mkfifo first
    "$TAMIS" verify "$@" >out 2>err 3>&- &
    pid=$!
    exec 7>first
}

@test "verify while segments are replaced, dropped and lost" {
    ok "$TAMIS" init store
    for s in first replaced dropped lost; do echo $s | "$TAMIS" build store $s; done
    echo replaced >replaced
    touch dropped lost
    begin_verify store --against-each first replaced lost dropped
    echo new | "$TAMIS" build store replaced --replaces replaced
    "$TAMIS" drop store dropped
    rm "$(filter_of lost)"
    exec 7>&-
    run wait "$pid"
    cat out err
    [ "$(cut -f 1-2 out | sed -n '1,2p;4p')" = $'first\tok\nreplaced\tok\nlost\tlost' ]
    # Its new filter was asked: it has another key.
    grep -q $'^lost\treplaced\treplaced$' out
    [ "$(wc -l <err)" -eq 1 ]
}

@test "verify of all while segments are replaced and dropped" {
    ok "$TAMIS" init store
    mkdir d
    long=$(printf %0240d 0)
    for i in $(seq 100 499); do echo $i >d/$long$i; done
    ok "$TAMIS" build store --each -j2 d/*
    # Its output fills the pipe: it stops half-way.
    mkfifo out
    "$TAMIS" verify store >out 2>err 3>&- &
    pid=$!
    exec 7<out
    sleep 0.5
    kill -0 "$pid"
    ok "$TAMIS" drop store ${long}499
    echo new | "$TAMIS" build store ${long}498 --replaces ${long}498
    cat <&7 >all
    exec 7<&-
    wait "$pid"
    cat err
    [ ! -s err ]
    [ "$(grep -c $'\tok\t' all)" -eq 399 ]
}
