# Filters made from filters, files and segments: union, intersect, fold; and compared.
load ../common

SEED="--seed 0123456789abcdef"

# Files a (1..20000) and b (15001..35000), of one shape and seed.
make_two() {
    seq 20000 >ka
    seq 15001 35000 >kb
    for f in a b; do tamis file build $f k$f $SEED "$@"; done
}

# has FILE KEYFILE: no key is lost.
has() {
    tells ": 0 lost" tamis file verify "$1" --against "$2"
}

@test "file union, intersect, fold" {
    make_two
    ok tamis file union u a b --segment both --bind c0ffee --watermark 5
    prints '^u: 3[0-9]{4} keys in 1 stage, .*, error [0-9.]+%$'
    has u ka
    has u kb
    tells 'name +both' tamis file show u
    prints 'xc0.xff.xee'
    tells 'HIT' tamis file probe u 1 --bind c0ffee --min-watermark 5
    ok tamis file intersect i a b
    seq 15001 20000 >common
    has i common
    ok tamis file probe i --count --keys kb
    tamis file build large ka --fpr 1e-8
    tells '"file": "s"' tamis file fold s large --fpr 1% --json
    prints '"damaged": 0'
    has s ka
    [ "$(stat -c %s s)" -lt "$(stat -c %s large)" ]
    ok tamis file fold half a --by 2
    has half ka
    [ "$(stat -c %s half)" -lt "$(stat -c %s a)" ]
}

@test "contains, equal, compare" {
    make_two
    tamis file union u a b
    gives MAYBE tamis file contains u a
    gives ABSENT tamis file contains a b
    exits 10 tamis file contains -q a b
    [ -z "$output" ]
    ok tamis file contains -q u b
    gives EQUAL tamis file equal a a
    gives DIFFERENT tamis file equal a b
    exits 10 tamis file equal --quiet a b
    tells $'\nin common: [0-9]+ keys, [0-9]+ to [0-9]+\nJaccard: 1[0-9.]+%, ' tamis file compare a b
    ok tamis file compare a b --json
    [ "$(jq '.common.low <= 5000 and .common.high >= 5000 and .together.high > 35000' <<<"$output")" = true ]
    [ "$(jq -r '.filters[0].in_other' <<<"$output")" = no ]
}

@test "file estimate" {
    make_two
    tells $'^keys: [0-9]+, 1[0-9]{4} to 20[0-9]{3}\nerror now: 0[.].*%\nmeasured: ' tamis file estimate a
    flip a 5000
    fails 3 "^tamis: a: 1 damaged page counted as all ones: build it anew" tamis file estimate a --seed 0000000000000007 --json
    [ "$(jq '.damaged == 1 and .measured.low <= .error and .measured.high >= .error' <<<"$output")" = true ]
    fails 4 "nowhere" tamis file estimate nowhere
}

@test "filters that do not combine are refused, with advice" {
    make_two
    tamis file build seed ka
    tamis file build shape ka --fpr 1e-6 $SEED
    tamis init store
    tamis grow store g ka --watermark 1
    for c in union intersect; do
        fails 3 "seed: another hash or seed.*: build one anew with the --seed" tamis file $c out a seed
        fails 2 "it still grows: seal it" tamis file $c out a "$(filter_of g)"
        fails 3 "ka: " tamis file $c out a ka
        fails 4 "nowhere: " tamis file $c out a nowhere
        fails 2 "a: exists already" tamis file $c a a b
        fails 2 "too few arguments" tamis file $c out
        fails 4 "no/out: " tamis file $c no/out a b
    done
    fails 2 "shape: .*one shape.*; build it anew with the error 0[.][0-9]+$" tamis file intersect out a shape
    fails 2 "one shape" tamis file contains a shape
    tamis file build other ka -q
    for c in contains equal compare; do fails 3 "^tamis: other: another hash or seed" tamis file $c a other; done
    fails 2 "one shape" tamis file compare a shape
    fails 2 "a: 3 does not divide the 512 blocks of a lane of stage 0: fold by a divisor of 512$" tamis file fold out a --by 3
    fails 2 "a: its error is 0.0[0-9]+ as it is: build it anew" tamis file fold out a --fpr 1e-6
    fails 2 "give one of them" tamis file fold out a
    fails 2 "give one of them" tamis file fold out a --by 3 --fpr 1%
    fails 2 "by is 1..4294967296, not '0'" tamis file fold out a --by 0
    fails 2 "too many" tamis file fold out a b --by 3
    fails 2 "too many" tamis file equal a b b
    poke a 8 '\x09'
    fails 3 "a: .*newer" tamis file union out a b
    [ ! -e out ]
    ! ls ./*.tmp 2>/dev/null
}

@test "damaged sources cost reads, and it is said how many pages" {
    make_two
    flip a 5000
    fails 3 "u: 1 damaged page of the sources counted as all ones" tamis file union u a b
    has u ka
    has u kb
    fails 3 "i: 1 damaged page of" tamis file intersect i a b
    fails 3 "f: 1 damaged page of" tamis file fold f a --by 2
    has f ka
    fails 3 "fails its check" tamis file equal a a
    fails 3 "^tamis: 1 damaged page left out: " tamis file compare a b
    prints 'in common'
}

@test "one is not told as several" {
    for p in 30% 1e-8; do seq 50000 | tamis file build f$p - --fpr $p $SEED; done
    fails 2 "one shape: 1 lane of [0-9]+ words?, and [2-4] of [0-9]+; " tamis file intersect out f30% f1e-8
    echo x | tamis file build one - $SEED
    tells '^out: 1 key in 1 stage, ' tamis file union out one
}

@test "contains says how many pages fail, unless the others prove ABSENT" {
    make_two
    tamis file union u a b
    flip a 5000
    fails 3 "^tamis: 1 page fails its check and proves nothing: 'tamis file verify' tells which$" tamis file contains u a
    [ "$output" = MAYBE ]
    fails 3 "^tamis: 1 page fails" tamis file contains -q u a
    [ -z "$output" ]
    flip u 9000
    fails 3 "^tamis: 2 pages fail their check and prove nothing: " tamis file contains u a
    gives ABSENT tamis file contains a b
    exits 10 tamis file contains -q a b
}

@test "the error of what is made of damaged filters is never understated" {
    seq 100000 >k
    tamis file build a k --fpr 0.1% --seed 0123456789abcdef
    cp a d
    for at in 5000 9100 13200 17300 21400 60000; do poke d $at '\xaa\x55'; done
    fails 2 "d: its error would be 0.00[78].*build it anew" tamis file fold x d --fpr 0.2%
    fails 3 "x: 6 damaged pages" tamis file fold x d --by 1
    prints '^x: 100000 keys in 1 stage, .*, error 0[.][78]'
    fails 2 "x: its error would be 0.00[78].*build it anew" tamis file fold y x --fpr 0.5%
    [ ! -e y ]
    # Nothing is left of it: its keys are as its header has them.
    seq 50000 150000 | tamis file build b - --fpr 0.1% --seed 0123456789abcdef
    for at in $(seq 5000 4096 $((46 * 4096 + 1000))); do poke a "$at" '\xaa\x55'; done
    fails 3 "u: 46 damaged" tamis file union u a b
    prints '^u: 200001 keys in 1 stage, .*, error 100%'
}

@test "segments: union, intersect, fold, compare" {
    tamis init store
    seq 20000 | tee ka | tamis build store a
    seq 15001 35000 | tee kb | tamis build store b
    tells 'in common: ' tamis compare store a b
    tells '"segment": "i"' tamis intersect store i a b --json
    ok tamis union store c a b --replaces a --replaces b --bind 0102 --rank 4
    prints '^c: 3[0-9]{4} keys in 1 stage'
    gives $'i\nc' tamis ls store --names
    tells '20000' tamis probe store --segment c --keys ka --count
    ok tamis fold store c c --by 2 --replaces c
    sort -u ka kb >all
    tells ': 0 lost' tamis verify store c --against all
    [ "$(find store/filters -name '*.tamis' | wc -l)" -eq 2 ]
}

@test "segments that cannot be combined" {
    make_store
    tamis build store bare --bare
    echo x | tamis grow store g --watermark 1
    fails 2 "'two' exists already: --replaces 'two'" tamis union store two one
    fails 5 "no segment 'nope'" tamis union store u one nope
    fails 5 "without a filter: name segments that have" tamis union store u one bare
    fails 2 "^tamis: store: segment 'g': it still grows: seal it$" tamis union store u one g
    fails 2 "^tamis: store: segment 'one': 3 does not divide the 64 blocks of a lane of stage 0: fold by a divisor of 64$" tamis fold store u one --by 3
    tamis pack store one -q
    fails 2 "^tamis: store: segment 'one': 2 does not divide the 1 block of a lane of stage 0: only 1 divides those of every stage$" tamis fold store u one --by 2
    fails 5 "no segment 'x'" tamis union store u one two --replaces x
    fails 2 "give one of them" tamis fold store u one
    fails 2 "too few" tamis union store u
    fails 5 "" tamis union nowhere u one
    for s in x y; do echo a | tamis build store $s --list -q; done
    tells $'together: 1 key\n' tamis compare store x y
    tamis drop store x y -q
    fails 5 "without a filter" tamis compare store one bare
    [ "$(tamis ls store --names | wc -l)" -eq 4 ]
    [ "$(find store/filters -name '*.tamis' | wc -l)" -eq 3 ]
}

@test "a union or a damaged fold over the target is told" {
    tamis init store
    for s in a b c; do seq 50000 | sed "s/^/$s/" | tamis build store $s; done
    # As large as its keys want, and a fold that was asked for, are not over.
    tamis fold store d a --fpr 5%
    seq 100000 | tamis build store large --fpr 1e-8
    tells 'error [1-9]' tamis fold store e large --by 3
    ok tamis stat store d e --json
    [ "$(jq '.over_target == 0 and .unreadable == 0 and .details[0].target_error == 0.05' <<<"$output")" = true ]
    tamis union store u a b c
    tells ' 1 over their target error' tamis stat store u
    prints 'expected, target 1%: OVER TARGET, build the segment anew'
    ok tamis stat store u --json
    [ "$(jq '.over_target == 1 and .details[0].over_target and .details[0].target_error == 0.01' <<<"$output")" = true ]
    tells 'tamis_segment_over_target[{]store="store",segment="u"[}] 1' tamis stat store --prometheus
    prints 'tamis_segment_over_target[{]store="store",segment="e"[}] 0'
    # Ones in the place of a page are an error that nobody asked for.
    for at in 5000 20000; do flip "$(filter_of a)" $at; done
    run tamis fold store f a --by 1
    run tamis intersect store i a b
    tells ' 2 over their target error' tamis stat store f
    prints 'OVER TARGET'
    # Built anew in its place it is what was wanted.
    for s in a b c; do seq 50000 | sed "s/^/$s/"; done >all
    ok tamis build store u all --replaces u
    ok tamis stat store u
    ! [[ $output =~ OVER ]] || explain "u on target"
    prints ' 1 over their target error'
}

@test "segments in trouble are told by their names" {
    make_store
    tells 'Jaccard: 100%' tamis compare store one one
    cp "$(filter_of one)" "$(filter_of two)"
    for c in "union store u one two" "compare store one two"; do
        fails 3 "store: segment 'two': another filter .*: put its own file in its place" tamis $c
    done
    echo x | tamis grow store g
    hold_writer
    fails 6 "store: segment 'g': .*process.*: try again" tamis seal store g
    end_writer
    [ "$status" -eq 0 ]
}

# Filters of other errors have other shapes.
@test "another shape: the error in the message gives the right one" {
    local n error
    for n in 20 500 3000; do
        seq $n >k$n
        for error in 10% 1% 0.1% 1e-5; do
            tamis file build $n.$error k$n --fpr $error $SEED -q
        done
    done
    for one in 20.* 500.* 3000.*; do
        for other in 500.*; do
            capture tamis file compare "$one" "$other"
            [ "$status" -eq 2 ] || continue
            [[ $stderr =~ build\ (it|the\ first)\ anew\ with\ the\ error\ ([0-9.e-]+)$ ]] || explain "an error"
            error=${BASH_REMATCH[2]}
            if [ "${BASH_REMATCH[1]}" = it ]; then set -- "$one" new k500; else set -- new "$other" "k${one%%.*}"; fi
            rm -f new
            tamis file build new "$3" --fpr "$error" $SEED -q
            ok tamis file compare "$1" "$2"
        done
    done
    [ -e new ]
}

@test "paths that are none" {
    make_two
    ln -s loop loop
    for c in "file union out a" "file contains a" "file equal a" "file compare a"; do
        fails 4 "loop: cannot open: Too many levels" tamis $c loop
        fails 2 "FILE is a path, and this one is empty" tamis $c ""
    done
    fails 2 "OUT is a path, and this one is empty" tamis file union "" a
    [ ! -e out ]
}

@test "the message names the filter that does not fit" {
    tamis init store --n0 1k --seed 0123456789abcdef
    seq 300 | tamis build store one -q
    seq 20000 | tamis grow store two -q
    fails 2 "^tamis: store: segment 'two': it still grows" tamis compare store one two
    tamis seal store two 2>sealed
    for what in "compare store one two" "compare store two one" "intersect store x one two"; do
        fails 2 "^tamis: store: segment 'two': .* needs filters of one stage" tamis $what
    done
    for f in one two; do cp "$(filter_of $f)" $f; done
    fails 2 "^tamis: two: a comparison needs filters of one stage" tamis file compare one two
    fails 2 "^tamis: two: an intersection needs filters of one stage" tamis file intersect x one two
}
