# Lists of hashes: beside a segment's filter, and in files of their own.
load ../common

@test "a list in a file: built, shown, probed, verified" {
    seq 1000 >keys
    ok "$TAMIS" file build l.tamis keys --list
    ok "$TAMIS" file show l.tamis
    prints 'capacity +1000'
    ok "$TAMIS" file probe l.tamis 1 1000 nope
    [ "${lines[0]}" = $'1\tl.tamis\tHIT' ]
    [ "${lines[2]}" = $'nope\t-\tABSENT' ]
    ok "$TAMIS" file verify l.tamis --against keys
    prints "checked 1000 keys in 1 segment: 0 lost"
}

@test "a cut list is smaller" {
    seq 20000 >keys
    ok "$TAMIS" file build whole.tamis keys --list
    ok "$TAMIS" file build cut.tamis keys --list=32
    [ "$(stat -c %s cut.tamis)" -lt $(($(stat -c %s whole.tamis) / 2)) ]
    ok "$TAMIS" file verify cut.tamis --against keys
}

@test "duplicates count once, one key is enough, and none is refused" {
    printf 'a\nb\na\nb\na\n' >twice
    ok "$TAMIS" file build l.tamis twice --list
    ok "$TAMIS" file show l.tamis
    prints 'capacity +2'
    echo a >one
    ok "$TAMIS" file build one.tamis one --list
    ok "$TAMIS" file show one.tamis
    prints 'capacity +1'
    fails 2 "no key is in this list" "$TAMIS" file build none.tamis /dev/null --list
    [ ! -e none.tamis ]
    ok "$TAMIS" file build none.tamis /dev/null --list --empty
    ok "$TAMIS" file show none.tamis
    prints 'capacity +0'
}

@test "options that contradict a list are refused" {
    seq 10 >keys
    fails 2 "leave out --fpr" "$TAMIS" file build l.tamis keys --list --fpr 1%
    fails 2 "leave out --check" "$TAMIS" file build l.tamis keys --list --check
    fails 2 "--list is 1..64, not '65'" "$TAMIS" file build l.tamis keys --list=65
    fails 2 "--list is 1..64, not '0'" "$TAMIS" file build l.tamis keys --list=0
    "$TAMIS" init store
    fails 2 "neither --bare nor --pack" "$TAMIS" build store s --bare --list
    fails 2 "neither --bare nor --pack" "$TAMIS" build store --each keys --pack --list
}

@test "a segment with a list: built, verified, repaired, backed up, dropped" {
    "$TAMIS" init store
    seq 5000 >keys
    ok "$TAMIS" build store s keys --list
    [ "$(find store/filters -type f | wc -l)" -eq 2 ]
    ok "$TAMIS" build store t keys
    ok "$TAMIS" probe store 77
    ok "$TAMIS" repair store
    ok "$TAMIS" backup store copy
    [ "$(find copy/filters -type f | wc -l)" -eq 3 ]
    ok "$TAMIS" verify copy
    ok "$TAMIS" drop store s
    [ "$(find store/filters -type f | wc -l)" -eq 1 ]
}
