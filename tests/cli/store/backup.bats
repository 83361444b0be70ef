# backup
load ../common

@test "the copy is the store" {
    make_store
    seq 10 19 | "$TAMIS" grow store g
    ok "$TAMIS" backup store copy
    prints '^3 segments, 3 files, [0-9]+ bytes$'
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

@test "into the store itself" {
    make_store
    ln -s store/filters link
    tree=$(ls -R store)
    for to in store/in store/filters/in/ ./store/../store/in link/in; do
        fails 2 "^tamis: $to: inside the store itself: name a directory elsewhere$" \
            "$TAMIS" backup store "$to"
    done
    fails 2 "inside the store" bash -c 'cd store && "$TAMIS" backup . in'
    [ "$tree" = "$(ls -R store)" ]
    ok "$TAMIS" backup store store-copy
    ok "$TAMIS" backup store/ ./store.2/
}

has_begun() {
    ls -d copy.*.tmp/filters
}

# Findings that nobody reads hold a backup up.
@test "ended by a signal it leaves nothing" {
    ok "$TAMIS" init store
    mkdir lists
    for i in $(seq 900); do : >lists/$i; done
    ok "$TAMIS" build store --each lists/* --empty
    rm store/filters/*
    mkfifo out
    for signal in INT TERM HUP; do
        env --default-signal=INT,TERM,HUP "$TAMIS" backup store copy >out &
        exec 5<out
        soon has_begun
        sleep 0.2 # the pipe fills
        kill -$signal $!
        cat <&5 >/dev/null
        code=0
        wait $! || code=$?
        exec 5<&-
        [ "$code" -eq $((128 + $(kill -l $signal))) ] || explain "$signal, got $code"
        [ -z "$(ls -d copy* 2>/dev/null)" ]
    done
    run bash -c '"$TAMIS" backup store copy >/dev/full'
    [ "$status" -ne 0 ]
    [ "$("$TAMIS" ls copy | wc -l)" -eq 900 ]
}

@test "damage is told, and is damage in the copy" {
    make_store
    flip "$(filter_of one)" 5000
    fails 3 "copied, but 1 file is damaged in it and 0 files left out" "$TAMIS" backup store copy
    prints $'^noted\tone\tfilters/.*pages fail their check: copied as they are'
    run --separate-stderr "$TAMIS" verify copy
    [ "$status" -eq 3 ]
    prints $'one\tdamaged'
    rm "$(filter_of two)"
    fails 3 "1 file left out" "$TAMIS" backup store copy2
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

@test "a finding of a list says that it is the list" {
    "$TAMIS" init store
    seq 5000 >keys
    "$TAMIS" build store s keys --list -q
    list=$(list_of s)
    flip "$list" 9000
    fails 3 "copied, but 1 file is damaged in it" "$TAMIS" backup store copy
    prints $'^noted\ts\tfilters/'"${list##*/}"$'\tits list: pages fail their check: copied as they are'
    rm "$list"
    fails 3 "1 file left out" "$TAMIS" backup store copy2
    prints $'\tits list: left out, its segment is without a list there: the file is missing'
}
