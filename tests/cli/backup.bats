# backup
load common

@test "the copy is the store" {
    make_store
    seq 10 19 | "$TAMIS" grow store g
    ok "$TAMIS" backup store copy
    prints '^3 segments, 3 filters, [0-9]+ bytes$'
    diff -r store/filters copy/filters
    [ "$(ls copy)" = $'catalog.lmdb\nfilters' ]
    ok "$TAMIS" verify copy
    ok "$TAMIS" probe copy a 12 nope
    prints $'a\tone\tHIT'
    prints $'12\tg\tHIT'
    prints $'nope\t-\tABSENT'
    [ "$("$TAMIS" ls store)" = "$("$TAMIS" ls copy)" ]
    seq 20 29 | ok "$TAMIS" grow copy g
    ok "$TAMIS" repair copy
    prints 'nothing to do'
}

@test "where something is already, where nothing can be" {
    make_store
    mkdir full
    touch full/file file
    fails 2 "something is there already: a backup makes its own" "$TAMIS" backup store full
    fails 2 "already" "$TAMIS" backup store file
    fails 2 "already" "$TAMIS" backup store store
    fails 2 "something is there already" "$TAMIS" backup store /
    fails 4 "No such" "$TAMIS" backup store none/copy
    fails 5 "no such directory" "$TAMIS" backup none copy
    fails 2 "too few" "$TAMIS" backup store
    fails 2 "DIR is a path" "$TAMIS" backup store ''
    [ "$(ls -I 'separate-*')" = $'file\nfull\nstore' ]
    [ "$(ls full)" = file ]
}

@test "damage is told, and is damage in the copy" {
    make_store
    flip "$(filter_of one)" 5000
    fails 3 "copied, but 1 filters are damaged in it and 0 left out" "$TAMIS" backup store copy
    prints $'^noted\tone\tfilters/.*pages fail their check: copied as they are'
    run --separate-stderr "$TAMIS" verify copy
    [ "$status" -eq 3 ]
    prints $'one\tdamaged'
    rm "$(filter_of two)"
    fails 3 "1 left out" "$TAMIS" backup store copy2
    prints $'noted\ttwo\tfilters/.*left out'
    ok "$TAMIS" probe copy2 nope
    prints $'nope\ttwo\tNO_FILTER'
    run --separate-stderr "$TAMIS" backup store copy3 --json
    prints '"left_out": 1'
    prints '"segment": "one"'
}

@test "while a writer is at it" {
    make_store
    mkfifo keys
    "$TAMIS" grow store g keys &
    exec 4>keys
    seq 5 >&4
    soon "$TAMIS" ls store g >/dev/null
    ok "$TAMIS" backup store copy
    exec 4>&-
    wait
    ok "$TAMIS" ls copy
    [ "${#lines[@]}" -eq 3 ]
    seq 6 9 | ok "$TAMIS" grow copy g
    ok "$TAMIS" verify copy
}
