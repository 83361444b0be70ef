# tamis plan --apply: work that it leaves to its user.
load ../common

# R, which is to grow, and B and C, which are to go.
make_full() {
    seq 6000 >a.keys
    seq 200000 >b.keys
    "$TAMIS" init store
    "$TAMIS" build -q store R a.keys --list --fpr 50% "$@"
    "$TAMIS" build -q store B b.keys --fpr 50% --rank 1
    "$TAMIS" build -q store C b.keys --kind ribbon --rank 2
}

@test "a filter grows only when there is room for it" {
    make_full
    before=$("$TAMIS" ls store --json | jq 'map(.bytes) | add')
    [ "$before" -gt 20480 ]
    ok "$TAMIS" plan store --bytes 20K --kind ribbon --apply
    prints '^rebuild  R, when there is room: tamis build store R --from-list '
    [ "$("$TAMIS" ls store --json | jq 'map(.bytes) | add')" -eq "$before" ]
    "$TAMIS" build -q store B --bare --replaces B
    "$TAMIS" build -q store C --bare --replaces C
    ok "$TAMIS" plan store --bytes 20K --kind ribbon --apply
    prints '^rebuilt  R from its list: '
    [ "$("$TAMIS" ls store R --json | jq '.[0].bytes')" -le 20480 ]
    ! grep 'not reached' <<<"$output" || explain "nothing waits"
}

@test "a filter that is to be made from its list gets the planned kind" {
    make_full --kind ribbon
    ok "$TAMIS" plan store --bytes 20K --apply
    prints $'(^|\n)rebuild  R, when there is room: tamis build store R --from-list --fpr [0-9.e-]+ --kind bloom\n'
    line=$(sed -n 's/^rebuild  R.*: tamis //p' <<<"$output")
    # shellcheck disable=SC2086
    ok "$TAMIS" $line
    ok "$TAMIS" plan store --bytes 20K --json
    [ "$(jq -r '.segments[] | select(.segment == "R") | .action' <<<"$output")" = keep ]
    "$TAMIS" verify store R --against a.keys
    ok "$TAMIS" help build
    prints 'from its list; keeps its kind'
}

@test "remove says that the list goes, too" {
    seq 20000 >keys
    "$TAMIS" init store
    "$TAMIS" build -q store listed keys --list
    "$TAMIS" build -q store plain keys
    ok "$TAMIS" plan store --bytes 0 --apply
    prints '^remove   listed, and its list goes, too: tamis build store listed --bare --replaces listed'$'\n'
    prints $'\n''remove   plain: tamis build store plain --bare --replaces plain'$'\n'
    rm "$(list_of listed)"
    ok "$TAMIS" plan store --bytes 0 --apply
    prints '^remove   listed, and its list goes, too: '
}

@test "filters that shrink make room for those that grow" {
    "$TAMIS" init store
    seq 1000 | "$TAMIS" build -q store a --list --fpr 50%
    seq 2000 40000 | "$TAMIS" build -q store b --rank 1 --list --fpr 1e-8
    before=$("$TAMIS" ls store --json | jq 'map(.bytes) | add')
    ok "$TAMIS" plan store --bytes 80K --kind ribbon --apply
    prints '^rebuilt  b from its list: .*'$'\n''rebuilt  a from its list: '
    prints " $("$TAMIS" ls store --json | jq 'map(.bytes) | add') bytes of filters now"
}

# Two segments with lists, for which some plans have sizes that no fold gives.
make_halves() {
    rm -rf store
    "$TAMIS" init store
    seq 40000 | "$TAMIS" build -q store a "$@"
    seq 30000 | "$TAMIS" build -q store b --rank 1 "$@"
}

@test "a filter that no fold gives its size is made from its list, and is not folded first" {
    for size in 36K 44K 52K; do
        make_halves --list
        ok "$TAMIS" plan store --bytes $size --apply
        [ "$(grep -c '^rebuilt  [ab] from its list: ' <<<"$output")" -eq 2 ] || explain "both"
        ! grep -Eq '^(shrunk|rebuild) ' <<<"$output" || explain "nothing shrunk, nothing to rebuild"
        prints " $("$TAMIS" ls store --json | jq 'map(.bytes) | add') bytes of filters now"
        ok "$TAMIS" verify store --against-list
        ok "$TAMIS" plan store --bytes $size --apply
        prints '^0 bytes given back; '
    done
    # A cut list makes no filter, so the fold is the best that there is.
    make_halves --list=40
    ok "$TAMIS" plan store --bytes 36K --apply
    prints '^shrunk   a: '
    prints $'\nrebuild  a: tamis build store a KEYFILE .* --list=40\n'
}

@test "a filter that is built anew as planned keeps the watermark" {
    "$TAMIS" init store
    seq 30000 >keys
    "$TAMIS" grow store g keys --watermark 12
    "$TAMIS" seal store g
    ok "$TAMIS" plan store --bytes 16K --apply
    command=$(sed -n 's/^rebuild  g: tamis \(.* --replaces g --watermark 12\)$/\1/p' <<<"$output")
    # shellcheck disable=SC2086
    ok "$TAMIS" ${command/KEYFILE/keys}
    ok "$TAMIS" probe store --segment g 7 --min-watermark 12
    prints 'HIT$'
    fails 2 "--watermark is for a filter, and --bare makes none" "$TAMIS" build store b --bare --watermark 3
}

@test "a filter whose list cannot be read is folded all the same" {
    make_halves --list
    list=$(list_of a)
    cp -a store kept
    for wrong in "rm $list" "flip $list 9000"; do
        rm -r store
        cp -a kept store
        $wrong
        fails 3 "the list of 1 segment cannot be read, so its filter is not as planned: " \
            "$TAMIS" plan store --bytes 36K --apply
        prints '^unread   the list of segment .a.: '
        prints $'\nrebuilt  b from its list: .*\nshrunk   a: .*\nrebuild  a: tamis build store a KEYFILE '
        ok "$TAMIS" probe store 1 40000
        [ "$(grep -c $'\ta\tHIT' <<<"$output")" -eq 2 ] || explain "hits"
    done
}
