# Lists without a key: what a pipe gives whose command has failed. Planted bugs of the
# command are caught here (tests/mutants), so this file is to be quick.
load ../common

@test "a list without a key makes no filter, unless it is --empty" {
    make_store
    for c in "build store new -" "build store one - --replaces one" "file build f.tamis -"; do
        fails 2 "^tamis: standard input: no key is in this list: .*ABSENT of every key: .*--empty" \
            bash -c "false | tamis $c"
    done
    [ ! -e f.tamis ]
    seq 3 >full
    : >void
    fails 2 "^tamis: void: no key is in this list" tamis build store --each full void -j1
    holds 2
    tells $'a\tone\tHIT' tamis probe store a
    ok tamis build store --each full void --empty
    ok tamis build store one void --empty --replaces one
    tells ABSENT tamis probe store a
    ok tamis file build f.tamis void --empty
    fails 2 "leave out --empty" tamis build store bare --bare --empty
    # The empty key is a key.
    echo | ok tamis build store line
}

@test "a list whose first key is bad makes no segment" {
    ok tamis init store
    printf '\3\0\0\0ab' >cut
    fails 2 "cut: key 1: the list ends within it" tamis grow store g cut --binary
    fails 2 "cut: line 1: not an even number of hex" tamis grow store g cut --hex --empty
    gives '' tamis ls store
    [ -z "$(ls -A store/filters)" ]
    # The first key of a new segment is no other than the first of the list.
    printf '00ff\nAB12\n' >hex
    capture tamis grow store g hex --hex --json
    [ "$status" -eq 0 ] && [ "$(jq -c '[.keys_read, .keys]' <<<"$output")" = "[2,2]" ] || explain 0
    tells 'checked 2 keys in 1 segment: 0 lost' tamis verify store g --against hex --hex
}

@test "an empty list makes no segment, and moves no watermark, without --empty" {
    ok tamis init store
    fails 2 "standard input: no key is in this list: a new filter would say ABSENT.*--empty" \
        bash -c 'false | tamis grow store g -'
    gives '' tamis ls store
    [ -z "$(ls -A store/filters)" ]
    ok tamis grow store g /dev/null --empty --watermark 5
    ok tamis grow store g /dev/null
    ok tamis grow store g /dev/null --watermark 5
    fails 2 "no key is in this list: the new watermark would claim keys that did not come: .*--empty" tamis grow store g /dev/null --watermark 6
    tells '"watermark": 5' tamis stat store g --json
    ok tamis grow store g /dev/null --watermark 6 --empty
    tells '"watermark": 6' tamis stat store g --json
}

@test "verify against a list without a key checks nothing, and says so without --empty" {
    make_store
    make_file
    : >two
    for c in "verify store one --against -" "file verify f.tamis --against -"; do
        fails 2 "^tamis: standard input: no key is in this list: nothing was checked: .*--empty" \
            bash -c "false | tamis $c"
        ! [[ $output =~ "0 lost" ]] || explain "no sum"
        capture bash -c "false | tamis $c --json"
        [ "$status" -eq 2 ] && [ "$(jq -c '[.against.keys, .against.segments]' <<<"$output")" = "[0,0]" ] ||
            explain 2
        ok bash -c "false | tamis $c --empty"
        prints 'checked 0 keys in 1 segment: 0 lost'
    done
    fails 2 "^tamis: two: no key is in this list: nothing was checked" tamis verify store --against-each two
    ok tamis verify store --against-each two --empty
    fails 2 "--empty is for --against" tamis verify store --empty
    fails 2 "--empty is for --against" tamis file verify f.tamis --empty
    # Lost keys of another list are told all the same, and the first failure counts.
    echo nope >one
    capture tamis verify store --against-each two one
    [ "$status" -eq 2 ] || explain 2
    prints $'lost\tnope\tone'
}

@test "a list of sizes without a segment has no plan" {
    for more in "--bytes 1M" "--bytes 1M --json" "--bytes 1M --svg pic.svg" "--reads 0.1" "--pack --fpr 1%"; do
        fails 2 "^tamis: /dev/null: no segment is in this list: nothing was planned$" \
            tamis plan --sizes /dev/null $more
        [ -z "$output" ] || explain "no output"
    done
    [ ! -e pic.svg ]
    fails 2 "^tamis: standard input: no segment is in this list" \
        bash -c 'false | tamis plan --sizes - --bytes 1M'
    printf '\n\n' >blank
    fails 2 "^tamis: blank: no segment is in this list" tamis plan --sizes blank --bytes 1M
    # An empty store has nothing to plan, and that is known.
    tamis init store
    ok tamis plan store --bytes 1M
}
