# Help, options and arguments: what is wrong is said, and the status is 2.
load ../common

commands="init build attach grow seal drop probe ls stat verify plan"

@test "no command: usage on stderr, status 2" {
    exits 2 tamis
    [ -z "$output" ]
    [[ $stderr == *usage:* ]]
}

@test "help COMMAND and COMMAND --help are the same" {
    for c in $commands "file build" "file show" "file probe" "file verify"; do
        tells "^usage: tamis $c" tamis help $c
        help=$output
        gives "$help" tamis $c --help
    done
    ok tamis help file
    help=$output
    for c in help --help -h; do
        gives "$help" tamis file $c
    done
    help=$(tamis help file show)
    gives "$help" tamis file help show
}

@test "help refuses words that it does not use" {
    for c in probe "file show" json keys exit help; do
        fails 2 "^tamis: help: too many arguments, from 'extra' on: see" tamis help $c extra more
    done
    fails 2 "too many arguments, from 'extra'" tamis --help ls extra
    fails 2 "no such command 'sift'" tamis help sift extra
    fails 2 "file: no such command 'extra'" tamis help file extra
}

@test "--version" {
    ok tamis --version
    tells '^tamis [0-9]+\.[0-9]+\.[0-9]+$' tamis -V
    fails 2 "^tamis: --version takes no argument" tamis --version extra
}

@test "every option of every command: a value that is bad, missing, too many, twice" {
    commands=$({ tamis help; tamis help file; } |
        sed -n 's/^  tamis \(file [a-z]*\|[a-z]*\) .*/\1/p' | grep -vx file)
    n=0
    while read -r c; do
        while read -r o; do
            n=$((n + 1))
            case $o in
            --*=)
                fails 2 "option '${o%=}' needs a value" tamis $c "${o%=}" </dev/null
                [ $o = --strip= ] || fails 2 "(${o%=} is|name is) " tamis $c "$o" </dev/null
                ;;
            --list) fails 2 "--list is 1..64, not 'x'" tamis $c $o=x ;;
            --color) fails 2 "--color is never, auto or always, not 'x'" tamis $c $o=x ;;
            --*) fails 2 "option '$o' takes no value" tamis $c $o=x ;;
            esac
        done < <(tamis $c --list-options)
    done <<<"$commands"
    [ $n -gt 200 ]
    fails 2 "^tamis: init: --fpr is given twice: once will do" tamis init s --fpr 1% --fpr 2%
}

@test "too few and too many arguments" {
    for c in init "build store" "attach store s" "grow store" "seal store" "drop store"; do
        fails 2 "${c%% *}: too few" tamis $c
    done
    fails 2 "init: too many" tamis init a b
    fails 2 "build: too many.*--each" tamis build store s f g
    fails 2 "build: --bare reads no keys: leave out 'f'" tamis build store s f --bare
    fails 2 "probe: no key" tamis probe store
    fails 2 "probe: either" tamis probe store k --keys f
    fails 2 "file show: too many" tamis file show a b
    fails 2 "plan: unexpected argument 'y'" tamis plan x y
}

@test "numbers outside their ranges name the range" {
    for p in 0 0.6 1e-9 -0.1 nan x 60% '' ' 1%' 0x1p-7 1e-2x; do
        fails 2 "--fpr is 1e-08..0.5, not '$p'" tamis init store --fpr "$p"
    done
    for x in 0.4 0.96 1 17 nan; do
        fails 2 "--factor is 1.25..16, not '$x'" tamis init store -s $x
        fails 2 "--tightening is 0.5..0.95, not '$x'" tamis init store -r $x
    done
    for n in 0 4294967297 -1 1.5 99999999999999999999999; do
        fails 2 "--n0 is 1..4294967296 .*powers of 1000.*, not '$n'" tamis init store --n0 $n
    done
    fails 2 "not '1.5', no whole number: see" tamis plan --keys 1.5
    fails 2 "--seed is 16 hex digits" tamis init store --seed 12
    fails 2 "--rank is 0..4294967295" tamis build store s --rank 4294967296
    fails 2 "--bind is 1..64 bytes" tamis build store s --bind xyz
    fails 2 "--bind is 1..64 bytes" tamis build store s --bind "$(printf %0130d 0)"
    fails 2 "--offset is a multiple of 4096" tamis file show f --offset 5
    fails 2 "--watermark is 0..18446744073709551615" tamis grow s t --watermark -1
    fails 2 "--jobs is 1..256" tamis file build f /dev/null -j 0
    [ ! -e store ]
}

@test "the edges of the ranges are in them" {
    ok tamis init a --fpr 0.5 -s 1.25 -r 0.5 --n0 1
    ok tamis init b --fpr 1e-8 -s 16 -r 0.95 --n0 4294967296
    ok tamis init c --fpr 30%
    tells "error 30%" tamis stat c
}

@test "names of 0 and of 256 bytes, 1 and 255 are fine" {
    ok tamis init store
    long=$(printf %0256d 0)
    for name in "" "$long"; do
        fails 2 "name is 1..255 bytes long, not ${#name}" tamis build store "$name" /dev/null
        fails 2 "name is 1..255" tamis attach store "$name" f
        for c in "grow store" "seal store" "drop store" "ls store" "probe store k --segment" \
            "build store a /dev/null --replaces" "file build f /dev/null --segment"; do
            fails 2 "name is 1..255" tamis $c "$name"
        done
    done
    ok tamis build store "${long:1}" /dev/null --empty
    ok tamis build store x /dev/null --empty
    lists 2
}

@test "options that exclude each other" {
    fails 2 "exclude each other" tamis build store s -0 --hex
    fails 2 "--each goes with" tamis build store --each f --bind 00
    fails 2 "--strip is for --each" tamis build store s --strip .x
    fails 2 "--quiet answers for one" tamis probe store a b --quiet
    fails 2 "--quiet prints nothing" tamis probe store a --quiet --json
    fails 2 "--bind goes with one --segment" tamis probe store a --bind 00
    fails 2 "are for --keys" tamis probe store a -0
    fails 2 "--against checks one" tamis verify store --against f
    fails 2 "leave out --seed" tamis file build f --store s --seed 0000000000000000
}

@test "options that were read, and a store that is not there: nothing leaks" {
    fails 5 "nostore" tamis probe nostore --segment a x
    fails 5 "nostore" tamis attach nostore a f --replaces a
    fails 5 "nostore" tamis build nostore a /dev/null --replaces a --replaces b
    fails 5 "nostore" tamis file build f /dev/null --store nostore --segment a
    fails 2 "--segment: a file has one" tamis file build f /dev/null --segment a --segment b
}

@test "empty paths" {
    ok tamis init store
    for c in init ls stat verify "build s" "grow s" "seal s" "drop s" "probe k" "attach s f"; do
        set -- $c
        fails 2 "^tamis: $1: STORE is a path, and this one is empty" tamis $1 "" ${2:-} ${3:-}
    done
    for c in build show verify "probe k"; do
        set -- $c
        fails 2 "^tamis: file $1: FILE is a path, and this one is empty" tamis file $1 "" ${2:-}
    done
    fails 2 "FILE.tamis is a path" tamis attach store s ""
    fails 2 "--store is a path" tamis file build f /dev/null --store ""
    for c in "build store s" "grow store s" "file build f" "build store --each" \
        "verify store --against-each"; do
        fails 2 "path of (the|a) key list is empty" tamis $c ""
    done
    gives '' tamis ls store
}

@test "a name twice" {
    make_store
    fails 2 "drop: segment 'one' is named twice" tamis drop store one two one
    fails 2 "build: segment 'one' is named twice" tamis build store x /dev/null --replaces one --replaces one
    fails 2 "probe: segment 'one' is named twice: once will do" \
        tamis probe store a --segment one --segment two --segment one
    for c in "merge store m one two --replaces one" "union store u one one" "intersect store i one one"; do
        fails 2 "${c%% *}: segment 'one' is named twice" tamis $c
    done
    mkdir d && echo a | tee one >d/one
    fails 2 "verify: one and d/one are both for segment 'one': check one at a time" \
        tamis verify store --against-each one two d/one
    lists 2
}
