# tamis plan --apply: work that it leaves to its user.
load ../common

# R, which is to grow, and B and C, which are to go.
make_full() {
    seq 6000 >a.keys
    seq 200000 >b.keys
    tamis init store
    tamis build -q store R a.keys --list --fpr 50% "$@"
    tamis build -q store B b.keys --fpr 50% --rank 1
    tamis build -q store C b.keys --kind ribbon --rank 2
}

@test "a filter grows only when there is room for it" {
    make_full
    before=$(tamis ls store --json | jq 'map(.bytes) | add')
    [ "$before" -gt 20480 ]
    ok tamis plan store --bytes 20K --kind ribbon --apply
    prints '^rebuild  R, when there is room: tamis build store R --from-list '
    [ "$(tamis ls store --json | jq 'map(.bytes) | add')" -eq "$before" ]
    tamis build -q store B --bare --replaces B
    tamis build -q store C --bare --replaces C
    tells '^rebuilt  R from its list: ' tamis plan store --bytes 20K --kind ribbon --apply
    [ "$(tamis ls store R --json | jq '.[0].bytes')" -le 20480 ]
    ! grep 'not reached' <<<"$output" || explain "nothing waits"
}

@test "a filter that is to be made from its list gets the planned kind" {
    make_full --kind ribbon
    ok tamis plan store --bytes 20K --apply
    prints $'(^|\n)rebuild  R, when there is room: tamis build store R --from-list --fpr [0-9.e-]+ --kind bloom\n'
    line=$(sed -n 's/^rebuild  R.*: tamis //p' <<<"$output")
    ok tamis $line
    ok tamis plan store --bytes 20K --json
    [ "$(jq -r '.segments[] | select(.segment == "R") | .action' <<<"$output")" = keep ]
    tamis verify store R --against a.keys
    tells 'from its list; keeps its kind' tamis help build
}

@test "remove says that the list goes, too" {
    build_of listed=20000 --list
    tamis build -q store plain listed
    ok tamis plan store --bytes 0 --apply
    prints '^remove   listed, and its list goes, too: tamis build store listed --bare --replaces listed'$'\n'
    prints $'\n''remove   plain: tamis build store plain --bare --replaces plain'$'\n'
    rm "$(list_of listed)"
    tells '^remove   listed, and its list goes, too: ' tamis plan store --bytes 0 --apply
}

@test "filters that shrink make room for those that grow" {
    tamis init store
    seq 1000 | tamis build -q store a --list --fpr 50%
    seq 2000 40000 | tamis build -q store b --rank 1 --list --fpr 1e-8
    before=$(tamis ls store --json | jq 'map(.bytes) | add')
    ok tamis plan store --bytes 80K --kind ribbon --apply
    prints '^rebuilt  b from its list: .*'$'\n''rebuilt  a from its list: '
    prints " $(tamis ls store --json | jq 'map(.bytes) | add') bytes of filters now"
}

# Two segments with lists, for which some plans have sizes that no fold gives.
make_halves() {
    rm -rf store
    tamis init store
    seq 40000 | tamis build -q store a "$@"
    seq 30000 | tamis build -q store b --rank 1 "$@"
}

@test "a filter that no fold gives its size is made from its list, and is not folded first" {
    for size in 36K 44K 52K; do
        make_halves --list
        ok tamis plan store --bytes $size --apply
        [ "$(grep -c '^rebuilt  [ab] from its list: ' <<<"$output")" -eq 2 ] || explain "both"
        ! grep -Eq '^(shrunk|rebuild) ' <<<"$output" || explain "nothing shrunk, nothing to rebuild"
        prints " $(tamis ls store --json | jq 'map(.bytes) | add') bytes of filters now"
        ok tamis verify store --against-list
        tells '^0 bytes given back; ' tamis plan store --bytes $size --apply
    done
    # A cut list makes no filter, so the fold is the best that there is.
    make_halves --list=40
    tells '^shrunk   a: ' tamis plan store --bytes 36K --apply
    prints $'\nrebuild  a: tamis build store a KEYFILE .* --list=40\n'
}

@test "a filter that is built anew as planned keeps the watermark" {
    tamis init store
    seq 30000 >keys
    tamis grow store g keys --watermark 12
    tamis seal store g
    ok tamis plan store --bytes 16K --apply
    command=$(sed -n 's/^rebuild  g: tamis \(.* --replaces g --watermark 12\)$/\1/p' <<<"$output")
    ok tamis ${command/KEYFILE/keys}
    tells 'HIT$' tamis probe store --segment g 7 --min-watermark 12
    fails 2 "--watermark is for a filter, and --bare makes none" tamis build store b --bare --watermark 3
}

@test "a filter whose list cannot be read is folded all the same" {
    make_halves --list
    list=$(list_of a)
    cp -a store kept
    for wrong in : "mkdir $list" "touch $list" "mkfifo $list" "ln -s kept $list" "cp $(filter_of b) $list" \
        "cp ${list/store/kept} $list && flip $list 9000"; do
        rm -r store
        cp -a kept store
        rm "$list"
        eval "$wrong"
        fails 3 "1 segment with a list that cannot be read, so not as planned: " \
            tamis plan store --bytes 36K --apply
        prints '^unread   the list of segment .a.: '
        prints $'\nrebuilt  b from its list: .*\nshrunk   a: .*\nrebuild  a: tamis build store a KEYFILE [^\n]* --list\n'
        fails 3 "1 segment with a list" tamis plan store --bytes 36K --apply
        ok tamis probe store 1 40000
        [ "$(grep -c $'\ta\tHIT' <<<"$output")" -eq 2 ] || explain "hits"
    done
}
