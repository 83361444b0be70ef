# One filter file: build, show, probe, verify; and every way in which it can be broken.
load ../common

@test "build, probe, verify" {
    make_file --watermark 77 --bind c0ffee
    gives $'1\ts\tHIT\n1000\ts\tHIT\nnope\t-\tABSENT' tamis file probe f.tamis 1 1000 nope
    tells $'^s\tok\t' tamis file verify f.tamis --against keys
    prints "checked 1000 keys in 1 segment: 0 lost"
    tells '"result": "ok"' tamis file verify f.tamis --json
    [ "$(stat -c %s f.tamis)" -le 8192 ]
    local long=$PWD/$(printf '%0250d/' 1 2 3 4 5)
    mkdir -p "$long"
    tamis file build "$long/f.tamis" keys -q
    gives "$long/f.tamis"$'\tok\t1 page' tamis file verify "$long/f.tamis"
    gives '' tamis file probe f.tamis --quiet 1
    exits 10 tamis file probe f.tamis -q nope
    [ -z "$output$stderr" ]
}

@test "show prints each field with its offset" {
    make_file --seed 00000000000000ff --fpr 0.001
    tells '(^|'$'\n'') +0 +8  magic' tamis file show f.tamis
    prints '8 +2  major +1'
    prints 'hash_seed +0x0*ff'
    prints 'target_error +0.001'
    tells '"name": "major"' tamis file show f.tamis --json
    prints '"offset": 8'
}

@test "a file that exists is not touched" {
    make_file
    sum=$(md5sum f.tamis)
    fails 2 "f.tamis: exists already" tamis file build f.tamis keys
    [ "$(md5sum f.tamis)" = "$sum" ]
}

@test "a filter does not go to standard output" {
    make_file
    for c in "build - keys" "fold - f.tamis --by 1" "union - f.tamis f.tamis"; do
        fails 2 "^tamis: -: a filter is a file, not standard output: ./- is" tamis file $c
        [ ! -e - ]
    done
    ok tamis file build ./- keys
    ok tamis file probe - 7
}

@test "lost keys are found and named" {
    make_file
    seq 990 1020 >other
    fails 3 "f.tamis: [0-9]+ keys not in the filters" tamis file verify f.tamis --against other
    prints $'lost\t10[0-9]+\ts'
    prints "checked 31 keys in 1 segment: (1[5-9]|20) lost"
    fails 3 "keys not in" tamis file verify f.tamis --against other --json
    prints '"lost": (1[5-9]|20)'
}

@test "missing file, directory, device, FIFO" {
    mkdir d
    mkfifo fifo
    for c in "show F" "verify F" "probe F -q k"; do
        fails 4 "^tamis: none: .*No such file" tamis file ${c/F/none}
        fails 3 "^tamis: d: a directory, not a filter: name" tamis file ${c/F/d}
        fails 3 "^tamis: d: a directory, not" tamis file ${c/F/d} --offset 4096
        fails 3 "^tamis: fifo: a FIFO, not" timeout 60 tamis file ${c/F/fifo}
        fails 3 "^tamis: /dev/null: a device, not" tamis file ${c/F//dev/null}
    done
    for c in estimate "union out" "fold --by 1 out" "compare d"; do
        fails 3 "^tamis: d: a directory, not" tamis file $c d
    done
    fails 4 "none/f.tamis: .*No such file" tamis file build none/f.tamis /dev/null
    fails 2 "d: exists already" tamis file build d /dev/null
}

@test "not a filter: text, empty, zeros" {
    echo "hello, world" >text
    : >empty
    head -c 8192 /dev/zero >zeros
    for f in text empty zeros; do
        for c in "show $f" "verify $f" "probe $f -q k"; do
            fails 3 "^tamis: $f: .+: .+" tamis file $c
        done
    done
}

@test "a flipped bit in the data: MAYBE with DAMAGED, verify names the page" {
    make_file
    flip f.tamis 5000
    gives $'1\ts\tDAMAGED\nnope\ts\tDAMAGED' tamis file probe f.tamis 1 nope
    ok tamis file probe f.tamis --quiet nope
    fails 3 "^tamis: f.tamis: .* \(offset 4096\): " tamis file verify f.tamis
    prints $'^s\tdamaged\t1 of 1 page, the first at offset 4096'
    fails 3 "offset 4096" tamis file verify f.tamis --json
    prints '"first_damaged": 4096'
}

@test "a newer major version, and what show prints of a broken header" {
    make_file
    cp f.tamis good
    poke f.tamis 8 '\x63'
    fails 3 "^tamis: f.tamis: .*version.* \(offset 8\): .*newer" tamis file probe f.tamis 1
    fails 3 "newer" tamis file show f.tamis
    prints 'major +99'
    fails 3 "newer" tamis file verify f.tamis
    cp good f.tamis
    flip f.tamis 2104
    fails 3 "offset" tamis file show f.tamis
    prints 'target_error'
    prints 'watermark'
    fails 3 "offset" tamis file show f.tamis --json
    prints '"error": ".+"'
}

@test "inside another file, at an offset" {
    make_file
    { head -c 12288 /dev/zero; cat f.tamis; echo tail; } >outer
    gives $'1\ts\tHIT\nnope\t-\tABSENT' tamis file probe outer --offset 12288 1 nope
    tells " 0 lost" tamis file verify outer --offset 12K --against keys
    tells ' 12296 +2  major' tamis file show outer --offset 12288
    fails 3 "^tamis: outer: .*offset 0" tamis file probe outer 1
    for c in "probe outer 1" "show outer" "verify outer"; do
        fails 3 "^tamis: outer: the file ends before this offset: check --offset$" tamis file $c --offset 4G
    done
    : >nothing
    fails 3 "^tamis: nothing: the file is empty: " tamis file show nothing
}

@test "another binding, a watermark that is behind" {
    make_file --watermark 77 --bind c0ffee
    tells ABSENT tamis file probe f.tamis nope --bind c0ffee --min-watermark 77
    fails 3 "f.tamis: .*binding" tamis file probe f.tamis nope --bind c0ffef
    gives $'nope\ts\tBEHIND' tamis file probe f.tamis nope --min-watermark 78
}

@test "a spool directory that is missing is named" {
    seq 8400000 >keys
    fails 4 "^tamis: /no/tmp: .*No such file.*: set TMPDIR" env TMPDIR=/no/tmp tamis file build f.tamis keys
    ok tamis init store
    fails 4 "^tamis: /no/tmp: .*No such file.*: set TMPDIR" env TMPDIR=/no/tmp tamis build store one keys
    [ ! -e f.tamis ]
    [ -z "$(ls -A store/filters)" ]
    tells 'TMPDIR' tamis help file build
}
