# Help, options and arguments: what is wrong is said, and the status is 2.
load ../common

commands="init build attach grow seal drop probe ls stat verify plan"

@test "help lists every command" {
    ok "$TAMIS" help
    for c in $commands union intersect fold compare; do
        prints "tamis $c "
    done
    ok "$TAMIS" help file
    for c in build show probe verify union intersect fold contains equal compare estimate; do
        prints "tamis file $c "
    done
    ok "$TAMIS" --help
}

@test "no command: usage on stderr, status 2" {
    run --separate-stderr "$TAMIS"
    [ "$status" -eq 2 ]
    [ -z "$output" ]
    [[ $stderr == *usage:* ]]
}

@test "help COMMAND and COMMAND --help are the same" {
    for c in $commands "file build" "file show" "file probe" "file verify"; do
        ok "$TAMIS" help $c
        prints "^usage: tamis $c"
        help=$output
        ok "$TAMIS" $c --help
        [ "$output" = "$help" ]
    done
    for topic in json keys exit; do ok "$TAMIS" help $topic; done
    ok "$TAMIS" help file
    help=$output
    for c in help --help -h; do
        ok "$TAMIS" file $c
        [ "$output" = "$help" ]
    done
    help=$("$TAMIS" help file show)
    ok "$TAMIS" file help show
    [ "$output" = "$help" ]
}

@test "help refuses words that it does not use" {
    for c in probe "file show" json keys exit help; do
        fails 2 "^tamis: help: too many arguments, from 'extra' on: see" "$TAMIS" help $c extra more
    done
    fails 2 "too many arguments, from 'extra'" "$TAMIS" --help ls extra
    fails 2 "no such command 'sift'" "$TAMIS" help sift extra
    fails 2 "file: no such command 'extra'" "$TAMIS" help file extra
}

@test "--version" {
    ok "$TAMIS" --version
    ok "$TAMIS" -V
    prints '^tamis [0-9]+\.[0-9]+\.[0-9]+$'
}

@test "unknown commands, topics and options" {
    fails 2 "no such command 'sift'" "$TAMIS" sift
    fails 2 "no such command 'sift'" "$TAMIS" help sift
    fails 2 "file: which command" "$TAMIS" file
    fails 2 "file: no such command" "$TAMIS" file sift
    fails 2 "unknown.*--sift.*tamis help ls" "$TAMIS" ls --sift store
    fails 2 "unknown option '-x'" "$TAMIS" ls -x store
    fails 2 "option '--fpr' needs a value" "$TAMIS" init store --fpr
    fails 2 "no such command" "$TAMIS" mend store
    [ ! -e store ]
}

@test "every option of every command: a value that is bad, missing, too many, twice" {
    commands=$({ "$TAMIS" help; "$TAMIS" help file; } |
        sed -n 's/^  tamis \(file [a-z]*\|[a-z]*\) .*/\1/p' | grep -vx file)
    n=0
    while read -r c; do
        while read -r o; do
            n=$((n + 1))
            case $o in
            --*=)
                fails 2 "option '${o%=}' needs a value" "$TAMIS" $c "${o%=}" </dev/null
                [ $o = --strip= ] || fails 2 "(${o%=} is|name is) " "$TAMIS" $c "$o" </dev/null
                ;;
            --list) fails 2 "--list is 1..64, not 'x'" "$TAMIS" $c $o=x ;;
            --color) fails 2 "--color is never, auto or always, not 'x'" "$TAMIS" $c $o=x ;;
            --*) fails 2 "option '$o' takes no value" "$TAMIS" $c $o=x ;;
            esac
        done < <("$TAMIS" $c --list-options)
    done <<<"$commands"
    [ $n -gt 200 ]
    fails 2 "^tamis: init: --fpr is given twice: once will do" "$TAMIS" init s --fpr 1% --fpr 2%
}

@test "too few and too many arguments" {
    fails 2 "init: too few" "$TAMIS" init
    fails 2 "init: too many" "$TAMIS" init a b
    fails 2 "build: too few" "$TAMIS" build store
    fails 2 "build: too many.*--each" "$TAMIS" build store s f g
    fails 2 "build: --bare reads no keys: leave out 'f'" "$TAMIS" build store s f --bare
    fails 2 "attach: too few" "$TAMIS" attach store s
    fails 2 "grow: too few" "$TAMIS" grow store
    fails 2 "seal: too few" "$TAMIS" seal store
    fails 2 "drop: too few" "$TAMIS" drop store
    fails 2 "probe: no key" "$TAMIS" probe store
    fails 2 "probe: either" "$TAMIS" probe store k --keys f
    fails 2 "file show: too many" "$TAMIS" file show a b
    fails 2 "plan: unexpected argument 'y'" "$TAMIS" plan x y
}

@test "numbers outside their ranges name the range" {
    for p in 0 0.6 1e-9 -0.1 nan x 60% '' ' 1%' 0x1p-7 1e-2x; do
        fails 2 "--fpr is 1e-08..0.5, not '$p'" "$TAMIS" init store --fpr "$p"
    done
    for s in 1.2 17 nan; do
        fails 2 "--factor is 1.25..16, not '$s'" "$TAMIS" init store -s $s
    done
    for r in 0.4 0.96 1; do
        fails 2 "--tightening is 0.5..0.95, not '$r'" "$TAMIS" init store -r $r
    done
    for n in 0 4294967297 -1 1.5 99999999999999999999999; do
        fails 2 "--n0 is 1..4294967296 .*powers of 1000.*, not '$n'" "$TAMIS" init store --n0 $n
    done
    fails 2 "--seed is 16 hex digits" "$TAMIS" init store --seed 12
    fails 2 "--rank is 0..4294967295" "$TAMIS" build store s --rank 4294967296
    fails 2 "--bind is 1..64 bytes" "$TAMIS" build store s --bind xyz
    fails 2 "--bind is 1..64 bytes" "$TAMIS" build store s --bind "$(printf %0130d 0)"
    fails 2 "--offset is a multiple of 4096" "$TAMIS" file show f --offset 5
    fails 2 "--watermark is 0..18446744073709551615" "$TAMIS" grow s t --watermark -1
    [ ! -e store ]
}

@test "the edges of the ranges are in them" {
    ok "$TAMIS" init a --fpr 0.5 -s 1.25 -r 0.5 --n0 1
    ok "$TAMIS" init b --fpr 1e-8 -s 16 -r 0.95 --n0 4294967296
    ok "$TAMIS" init c --fpr 30%
    ok "$TAMIS" stat c
    prints "error 30%"
}

@test "names of 0 and of 256 bytes, 1 and 255 are fine" {
    ok "$TAMIS" init store
    long=$(printf %0256d 0)
    for name in "" "$long"; do
        fails 2 "name is 1..255 bytes long, not ${#name}" "$TAMIS" build store "$name" /dev/null
        fails 2 "name is 1..255" "$TAMIS" grow store "$name" /dev/null
        fails 2 "name is 1..255" "$TAMIS" attach store "$name" f
        fails 2 "name is 1..255" "$TAMIS" seal store "$name"
        fails 2 "name is 1..255" "$TAMIS" drop store "$name"
        fails 2 "name is 1..255" "$TAMIS" ls store "$name"
        fails 2 "name is 1..255" "$TAMIS" probe store k --segment "$name"
        fails 2 "name is 1..255" "$TAMIS" build store a /dev/null --replaces "$name"
        fails 2 "name is 1..255" "$TAMIS" file build f /dev/null --segment "$name"
    done
    ok "$TAMIS" build store "${long:1}" /dev/null --empty
    ok "$TAMIS" build store x /dev/null --empty
    ok "$TAMIS" ls store
    [ "${#lines[@]}" -eq 2 ]
}

@test "options that exclude each other" {
    fails 2 "exclude each other" "$TAMIS" build store s -0 --hex
    fails 2 "--each goes with" "$TAMIS" build store --each f --bind 00
    fails 2 "--strip is for --each" "$TAMIS" build store s --strip .x
    fails 2 "--quiet answers for one" "$TAMIS" probe store a b --quiet
    fails 2 "--quiet prints nothing" "$TAMIS" probe store a --quiet --json
    fails 2 "--bind goes with one --segment" "$TAMIS" probe store a --bind 00
    fails 2 "are for --keys" "$TAMIS" probe store a -0
    fails 2 "--against checks one" "$TAMIS" verify store --against f
    fails 2 "leave out --seed" "$TAMIS" file build f --store s --seed 0000000000000000
}

@test "options that were read, and a store that is not there: nothing leaks" {
    fails 5 "nostore" "$TAMIS" probe nostore --segment a x
    fails 5 "nostore" "$TAMIS" attach nostore a f --replaces a
    fails 5 "nostore" "$TAMIS" build nostore a /dev/null --replaces a --replaces b
    fails 5 "nostore" "$TAMIS" file build f /dev/null --store nostore --segment a
    fails 2 "--segment: a filter has one" \
        "$TAMIS" file build f /dev/null --segment a --segment b
}

@test "empty paths" {
    ok "$TAMIS" init store
    for c in init ls stat verify "build s" "grow s" "seal s" "drop s" "probe k" "attach s f"; do
        set -- $c
        fails 2 "^tamis: $1: STORE is a path, and this one is empty" \
            "$TAMIS" $1 "" ${2:-} ${3:-}
    done
    for c in build show verify "probe k"; do
        set -- $c
        fails 2 "^tamis: file $1: FILE is a path, and this one is empty" \
            "$TAMIS" file $1 "" ${2:-}
    done
    fails 2 "FILE.tamis is a path" "$TAMIS" attach store s ""
    fails 2 "--store is a path" "$TAMIS" file build f /dev/null --store ""
    for c in "build store s" "grow store s" "file build f" "build store --each" \
        "verify store --against-each"; do
        fails 2 "path of (the|a) key list is empty" "$TAMIS" $c ""
    done
    ok "$TAMIS" ls store
    [ -z "$output" ]
}

@test "a name twice" {
    make_store
    fails 2 "drop: segment 'one' is named twice" "$TAMIS" drop store one two one
    fails 2 "build: segment 'one' is named twice" \
        "$TAMIS" build store x /dev/null --replaces one --replaces one
    fails 2 "probe: segment 'one' is named twice: once will do" \
        "$TAMIS" probe store a --segment one --segment two --segment one
    for c in "merge store m one two --replaces one" "union store u one one" "intersect store i one one"; do
        # shellcheck disable=SC2086
        fails 2 "${c%% *}: segment 'one' is named twice" "$TAMIS" $c
    done
    mkdir d && echo a | tee one >d/one
    fails 2 "verify: one and d/one are both for segment 'one': check one at a time" \
        "$TAMIS" verify store --against-each one two d/one
    ok "$TAMIS" ls store
    [ "${#lines[@]}" -eq 2 ]
}

@test "an unknown command of one file is named" {
    fails 2 "^tamis: file: no such command 'foo': it is build, show" "$TAMIS" file foo
    fails 2 "^tamis: file: no such command 'shwo': did you mean 'show'\\? it is build" "$TAMIS" file shwo
}
