# Lists without a key: what a pipe gives whose command has failed. Planted bugs of the
# command are caught here (tests/mutants), so this file is to be quick.
load common

@test "a list without a key makes no filter, unless it is --empty" {
    make_store
    for c in "build store new -" "build store one - --replaces one" "file build f.tamis -"; do
        fails 2 "^tamis: standard input: no key is in this list: .*ABSENT of every key: .*--empty" \
            bash -c "false | '$TAMIS' $c"
    done
    [ ! -e f.tamis ]
    seq 3 >full
    : >void
    fails 2 "^tamis: void: no key is in this list" "$TAMIS" build store --each full void -j1
    ok "$TAMIS" ls store
    [ "${#lines[@]}" -eq 2 ] && [ "$(ls store/filters | wc -l)" -eq 2 ]
    ok "$TAMIS" probe store a
    prints $'a\tone\tHIT'
    ok "$TAMIS" build store --each full void --empty
    ok "$TAMIS" build store one void --empty --replaces one
    ok "$TAMIS" probe store a
    prints ABSENT
    ok "$TAMIS" file build f.tamis void --empty
    fails 2 "leave out --empty" "$TAMIS" build store bare --bare --empty
    # The empty key is a key.
    echo | ok "$TAMIS" build store line
}

@test "an empty list makes no segment, and moves no watermark, without --empty" {
    ok "$TAMIS" init store
    fails 2 "standard input: no key is in this list: a new filter would say ABSENT.*--empty" \
        bash -c 'false | "$TAMIS" grow store g -'
    ok "$TAMIS" ls store
    [ -z "$output" ] && [ -z "$(ls -A store/filters)" ]
    ok "$TAMIS" grow store g /dev/null --empty --watermark 5
    ok "$TAMIS" grow store g /dev/null
    ok "$TAMIS" grow store g /dev/null --watermark 5
    fails 2 "no key is in this list: .*watermark.*--empty" "$TAMIS" grow store g /dev/null --watermark 6
    ok "$TAMIS" stat store g --json
    prints '"watermark": 5'
    ok "$TAMIS" grow store g /dev/null --watermark 6 --empty
    ok "$TAMIS" stat store g --json
    prints '"watermark": 6'
}
