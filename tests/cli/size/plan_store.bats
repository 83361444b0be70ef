# tamis plan STORE, tamis plan --sizes: memory over the filters of a store.
load ../common

plan() {
    tamis plan "$@" --json >plan.json
}
p() {
    jq -r "$1" plan.json
}
# is EXPRESSION: true of the plan.
is() {
    jq -e "$1" plan.json >/dev/null || { jq . plan.json; return 1; }
}

# Three levels of a store; the second has two segments of disjoint ranges.
make_levels() {
    tamis init store
    seq 1000 | tamis build store new --rank 0 --fpr 1e-6
    seq 100000 149999 | tamis build store left --rank 1 --bind 0102 --fpr 1e-4
    seq 500000 599999 | tamis build store right --rank 1 --fpr 1e-4
    seq 1000000 1399999 | tamis build store old --rank 2 --fpr 1e-4
}

@test "the sums of a plan: memory for reads, reads for memory" {
    printf '1M 0 a\n4M 1 b\n16M 2 c\n' >sizes
    plan --sizes sizes --bytes 40M
    is '.runs == 3 and .planned.filters == 3'
    # The sum is what they take, and is below the limit; each is what plan says of it alone.
    is '(.planned.bytes == ([.segments[].bytes] | add)) and .planned.bytes <= 40*1048576'
    is '.planned.reads - ([.segments[].error] | add) | fabs < 1e-12'
    is '.uniform.reads > .planned.reads and .uniform.bytes <= 40*1048576'
    is '.saving - (1 - .planned.reads / .uniform.reads) | fabs < 1e-12'
    p '.segments[] | "\(.keys) \(.fpr) \(.bytes)"' | while read -r keys fpr bytes; do
        [ "$(tamis plan --keys "$keys" --fpr "$fpr" --json | jq .file_bytes)" = "$bytes" ]
    done
    plan --sizes sizes --reads 0.02
    is '.planned.reads <= 0.02 and .planned.reads > 0.0195'
    fails 2 "waste so few: take more --reads" tamis plan --sizes sizes --reads 1e-9
}

@test "segments of a rank are a level, or runs, and somebody must say" {
    printf '1M 1 a\n1M 1 b\n100K 0 c\n' >sizes
    fails 2 "^tamis: sizes: several segments of rank 1: --levels .* --runs" \
        tamis plan --sizes sizes --bytes 1M
    plan --sizes sizes --bytes 2M --levels
    is '.runs == 2 and ([.segments[].run] | .[1] == .[2])'
    levels=$(p .planned.reads)
    plan --sizes sizes --bytes 2M --runs
    is ".runs == 3 and .planned.reads > $levels"
    fails 2 "exclude" tamis plan --sizes sizes --bytes 1M --runs --levels
}

@test "lists at their ends" {
    printf '0\n' >sizes
    plan --sizes sizes --bytes 0
    is '.planned.filters == 0 and .planned.reads == 1 and .segments[0].bytes == 0 and (.segments[0].fpr | not)'
    printf '256T 0\n10 1\n' >sizes
    plan --sizes sizes --bytes 256T
    is '.planned.filters == 1 and .planned.bytes == 8192 and .segments[0].bytes == 0'
    echo '5 1 name with  spaces' >sizes
    plan --sizes sizes --bytes 8K
    is '.segments[0].segment == "name with  spaces"'
    tamis plan --sizes - --bytes 8K <sizes | grep -q 'name with  spaces$'
    for bad in x '-5' '1 x' '282T' '1 4294967296' '1  2' '1.5'; do
        printf '7\n%s\n' "$bad" >sizes
        fails 2 "^tamis: sizes: line 2: '.*': a line is KEYS \[RANK \[NAME\]\], up to 2\^48" \
            tamis plan --sizes sizes --bytes 1M
    done
    fails 4 "nosuch: cannot open the list of sizes" tamis plan --sizes nosuch --bytes 1M
    fails 4 "is closed: name a file" bash -c 'tamis plan --sizes - --bytes 1M <&-'
    fails 2 "65536 bytes .*: name a list of lines" tamis plan --sizes /dev/zero --bytes 1M
    fails 2 "up to 2\^48 keys" tamis plan --sizes - --bytes 1M <<<"999999999999999999"
    printf '1000 0 \n2000 \n' >blanks
    ok tamis plan --sizes blanks --bytes 1M --json
    [ "$(jq -c '[.segments[].segment]' <<<"$output")" = '[null,null]' ]
}

@test "options that do not go together" {
    make_store
    fails 2 "one of --bytes and --reads" tamis plan store
    fails 2 "one of --bytes and --reads" tamis plan store --bytes 1M --reads 1
    fails 2 "a plan of a store takes .*no --keys" tamis plan store --keys 10
    fails 2 "no --keys" tamis plan store --bytes 1M --keys 5
    fails 2 "no --keys" tamis plan store --bytes 1M -s 2
    fails 2 "for a STORE" tamis plan --sizes x --bytes 1M --apply
    fails 2 "exclude each other" tamis plan store --sizes x --bytes 1M
    fails 2 "are for a STORE or --sizes" tamis plan --keys 5 --fpr 1% --reads 2
    fails 2 "unexpected argument 'two'" tamis plan store two --bytes 5
    fails 5 "nosuch" tamis plan nosuch --bytes 5
}

@test "a store: runs by key ranges, and what is there now" {
    make_levels
    tamis build store bare --bare
    plan store --bytes 400K
    is '.runs == 3 and .bare == 1'
    is '[.segments[] | select(.rank == 1) | .run] == [1, 1]'
    is '.bytes_now == ([.segments[].bytes_now] | add)'
    # right has twice the keys of left
    is '[.segments[].error_now] as $e | .reads_now - ($e[0] + $e[1] / 3 + $e[2] * 2 / 3 + $e[3]) | fabs < 1e-12'
    seq 120000 130000 | tamis build store across --rank 1
    plan store --bytes 400K
    is '.runs == 4'
    # Behind the others, but of another rank.
    seq 700000 700099 | tamis build store below --rank 3
    plan store --bytes 400K
    is '.runs == 5'
}

@test "filters that do not open are told, and by the status" {
    make_levels
    plan store --bytes 400K
    before=$(p .bytes_now) new=$(p '.segments[] | select(.segment == "new") | .bytes_now')
    rm "$(filter_of new)"
    poke "$(filter_of left)" 0 X
    fails 3 "^tamis: store: 2 filters cannot be read, and count as none: 'tamis verify'" \
        tamis plan store --bytes 400K
    prints $'\nunread    new: [^\n]+\nunread    left: '
    prints ' 100% +[0-9]+ unread +new'
    fails 3 "2 filters cannot be read" tamis plan store --bytes 400K --json
    [ "$(jq -r '[.segments[] | select(.error_now == 1) | .action] | join(" ")' <<<"$output")" = 'unread unread' ]
    # One that is lost takes no bytes.
    [ "$(jq -c '[.bytes_now, .length_now]' <<<"$output")" = "[$((before - new)),$((before - new))]" ]
    jq -e '.segments[0].unread | length > 0' <<<"$output"
    fails 3 "2 filters cannot be read" tamis plan store --bytes 400K --svg -
    fails 3 "2 filters cannot be read" tamis plan store --bytes 400K --apply
    prints $'\nunread   left: '
    ! grep -E '^(rebuild|shrunk)  (new|left)' <<<"$output" || explain "filters that do not open left alone"
    tamis drop store new
    fails 3 "1 filter cannot be read, and counts as none" tamis plan store --bytes 400K
}

@test "a picture replaces nothing that it is of" {
    make_levels
    printf '1000\n' >list && cp list before && ln -s store/catalog.lmdb link
    fails 2 "would replace the list of --sizes" tamis plan --sizes list --bytes 400M --svg list
    fails 2 "would replace the list" tamis plan --sizes ./list --bytes 400M --svg "$PWD/list"
    fails 2 "would replace the list" bash -c 'tamis plan --sizes - --bytes 400M --svg list <list'
    cmp list before
    for file in store/catalog.lmdb store/new.svg "$(filter_of new)" link ./store/../store/x; do
        fails 2 "names a file inside the store" tamis stat store --svg "$file"
        fails 2 "names a file inside the store" tamis plan store --bytes 1M --svg "$file"
    done
    ok tamis verify store
    ok tamis stat store --svg store.svg
    ok tamis plan --sizes list --bytes 400M --svg list.svg
}

@test "--apply shrinks what a fold can, and lists the rest" {
    make_levels
    seq 10 | tamis grow store growing --rank 3
    seq 2000000 2030000 | tamis grow store grown --rank 4 --watermark 77 --n0 2500
    tamis seal store grown
    before=$(tamis ls store left --json | jq -c '.[0] | del(.uuid, .file, .bytes, .error, .created)')
    plan store --bytes 250K
    is '[.segments[] | select(.action == "shrink")] | length > 0'
    wanted=$(p '.segments[] | select(.segment == "left") | .fpr')
    tells 'shrunk   left: ' tamis plan store --bytes 250K --apply
    prints 'seal     growing, then --apply again: tamis seal store growing'
    prints $'\n''the plan is not reached yet: [0-9]+ segments? left to the commands above; 1 growing, and only sealed filters can be shrunk or rebuilt$'
    # Rank, binding, watermark and key range are as they were, and so are the keys.
    after=$(tamis ls store left --json | jq -c '.[0] | del(.uuid, .file, .bytes, .error, .created)')
    [ "$before" = "$after" ]
    [[ $after == *'"binding":"0102"'* && $after == *'"first_key":"100000"'* ]]
    prints 'shrunk   grown: '
    [ "$(tamis ls store grown --json | jq -c '.[0] | [.rank, .watermark]')" = '[4,77]' ]
    seq 2000000 2030000 | ok tamis verify store grown --against -
    seq 100000 149999 | ok tamis verify store left --against -
    seq 1000000 1399999 | ok tamis verify store old --against -
    plan store --bytes 250K
    is ".segments[] | select(.segment == \"left\") | .error_now <= $wanted"
    is '[.segments[] | select(.action == "shrink")] | length == 0'
    tells '^.*0 bytes given back' tamis plan store --bytes 250K --apply
    ok tamis verify store
    [ "$(find store/filters -type f | wc -l)" -eq 6 ]
    tells 'remove   old: tamis build store old --bare' tamis plan store --bytes 0 --apply
    prints $'\n''the plan is not reached yet: 6 segments left to the commands above; 1 growing, '
    ok tamis plan store --reads 1e-5 --apply
    prints 'rebuild  old: tamis build store old KEYFILE --fpr [0-9.e-]+ --replaces old --rank 2'
    prints 'rebuild  left: .* --replaces left --rank 1 --bind 0102'
}

@test "a filter that was built as planned is kept" {
    tamis init store
    for n in 310000 420000 530000 640000; do
        seq "$n" | tamis build store "$n" --rank "$n"
    done
    plan store --bytes 2344K
    fpr=$(p '.segments[] | select(.segment == "420000") | .fpr')
    # Half of them have a few bits more than are to be expected, and as planned.
    for i in 1 2 3 4; do
        seq "${i}000000" "${i}419999" |
            tamis build store 420000 --rank 420000 --replaces 420000 --fpr "$fpr"
        plan store --bytes 2344K
        is '.segments[1].bytes == .segments[1].bytes_now and .segments[1].action == "keep"'
    done
}

@test "--apply lists at once all that needs its keys, as it has to be built" {
    make_levels
    ok tamis plan store --bytes 400K --apply
    first=$(grep '^rebuild' <<<"$output")
    ok tamis plan store --bytes 400K --apply
    [ "$first" = "$(grep '^rebuild' <<<"$output")" ]
    [ "$(wc -l <<<"$first")" -eq 3 ]
    grep -qE '^rebuild  left: .*--fpr [0-9.e-]+ --replaces left --rank 1 --bind 0102$' <<<"$first"
    grep -qE '^rebuild  right: .*--replaces right --rank 1$' <<<"$first"
    # Followed to the letter it is the same segment.
    before=$(tamis ls store left --json | jq -c '.[0] | [.rank, .binding]')
    line=$(sed -n 's/^rebuild  left: tamis build store left KEYFILE \(.*\)$/\1/p' <<<"$first")
    seq 100000 149999 | tamis build store left - $line
    [ "$before" = "$(tamis ls store left --json | jq -c '.[0] | [.rank, .binding]')" ]
    ok tamis plan store --bytes 0 --apply
    grep -qE '^remove   left: .*--bare --replaces left --rank 1 --bind 0102$' <<<"$output"
    grep -qE '^remove   new: .*--bare --replaces new$' <<<"$output"
}

@test "--apply leaves a damaged filter as it is" {
    make_levels
    flip "$(filter_of left)" 5000
    uuid=$(tamis ls store left --json | jq -r '.[0].uuid')
    fails 3 "^tamis: store: 1 filter damaged, and not shrunk: 'tamis verify' says what mends them$" \
        tamis plan store --bytes 250K --apply
    prints 'damaged  left: '
    [ "$(tamis ls store left --json | jq -r '.[0].uuid')" = "$uuid" ]
}

# Colours may look like numbers with an exponent, so this reads texts alone.
no_exponents() {
    grep '<text' pic.svg >texts
    ! grep -E '10\^|[0-9]e[-+]?[0-9]' texts || explain "no exponent in plain digits"
}

@test "a picture: powers of ten as such" {
    printf '1000 0 a\n100K 1 b\n10M 2 c\n' >sizes
    ok tamis plan --sizes sizes --bytes 10M --svg pic.svg
    axis=$(sed 's/ xmlns="[^"]*"//' pic.svg | xmllint --xpath '//text[@text-anchor="middle"]/text()' - | tr '\n' ' ')
    [ "$axis" = "1k 10k 100k 1M 10M " ]
    grep -Fq '>10⁻¹⁰<' pic.svg
    grep -Fq '>10⁻²<' pic.svg
    grep -Fq '>1<' pic.svg
    no_exponents
    # Everything has a filter: no word of others.
    ! grep -q 'no filter' pic.svg || explain "each has a filter"
    seq 20000 | sed 's/$/00/' >sizes
    ok tamis plan --sizes sizes --bytes 1G --svg pic.svg
    grep -q '>no filter<' pic.svg
    no_exponents
    echo 200T >sizes
    ok tamis plan --sizes sizes --bytes 1G --svg pic.svg
    grep -q '>100T<' pic.svg
    grep -q '>1P<' pic.svg
}

@test "a picture: a point a segment, errors over sizes" {
    printf '1000 0 <a&b>\n100K 1 b\n10M 2 c\n' >sizes
    ok tamis plan --sizes sizes --bytes 400K --svg pic.svg
    xmllint --noout pic.svg
    x() { sed 's/ xmlns="[^"]*"//' pic.svg | xmllint --xpath "$1" -; }
    [ "$(x 'count(//circle/title)')" = 3 ]
    x 'string(//circle[title][1]/title)' | head -n 1 | grep -Fx '<a&b>'
    # Larger is further to the right, and higher up; the last one has no filter.
    [ "$(x '//circle[title]/@cx' | tr -dc '0-9.\n' | sort -n | uniq | wc -l)" -eq 3 ]
    x '//circle[title]/@cy' | tr -dc '0-9.\n' | sort -n -r -C
    x 'string(//circle[title][3]/title)' | grep -x '10,000,000 keys, no filter'
    ok tamis plan --sizes sizes --bytes 400K --svg -
    [[ $output == "<svg "* && $output == *"</svg>" ]]
    fails 2 "no room" tamis plan --sizes sizes --bytes 400K --svg - --json
    tamis init empty
    for list in '' 0 256T; do
        printf '%s\n' "$list" >sizes
        from=(--sizes sizes)
        [ -n "$list" ] || from=(empty)
        ok tamis plan "${from[@]}" --bytes 0 --svg pic.svg
        xmllint --noout pic.svg
        ! grep -q 'nan\|inf' pic.svg || explain "numbers for '$list'"
    done
    seq 20000 | sed 's/$/00/' >sizes
    ok tamis plan --sizes sizes --bytes 1G --svg pic.svg
    [ "$(stat -c %s pic.svg)" -lt 200000 ]
}

@test "columns of packs are left out, and counted" {
    tamis init store
    for i in 1 2 3; do seq $((i * 1000)) $((i * 1000 + 100)) >s$i.keys; done
    tamis build store --each s*.keys --strip .keys --pack -q
    seq 3000 | tamis build store own -q
    ok tamis plan store --bytes 16K --json
    [ "$(jq -c '[.packed, [.segments[].segment]]' <<<"$output")" = '[3,["own"]]' ]
    ok tamis plan store --reads 0.5
    prints "packed +3 in packs, without files of their own: not planned; 'tamis plan STORE --pack'"
    [[ $output != *s1* ]] || explain "no advice for columns"
    tells "^segments +4," tamis plan store --pack --fpr 1%
}

@test "both kinds: ribbons where they take less" {
    printf '1M 0 a\n4M 1 b\n16M 2 c\n100 3 tiny\n' >sizes
    plan --sizes sizes --bytes 20M
    is '.bloom == .planned and .smaller.reads < 0.5 * .planned.reads'
    is '[.segments[].kind] == ["bloom", "bloom", "bloom", "bloom"]'
    bloom=$(p .planned.reads)
    plan --sizes sizes --bytes 20M --kind smaller
    is ".smaller == .planned and .bloom.reads == $bloom"
    is '[.segments[].kind] == ["ribbon", "ribbon", "ribbon", "bloom"]'
    is '.planned.bytes <= 20*1048576 and (.planned.bytes == ([.segments[].bytes] | add))'
    is '[.segments[] | has("lanes")] == [false, false, false, true]'
    plan --sizes sizes --bytes 20M --kind ribbon
    is '[.segments[].kind] | all(. == "ribbon")'
    exits 0 tamis plan --sizes sizes --bytes 20M --kind smaller
    [[ $output == *KIND* && $output == *"bloom   "*"quicker to ask"* ]]
    exits 0 tamis plan --sizes sizes --bytes 20M
    [[ $output != *KIND* && $output == *"--kind smaller"* ]]
    fails 2 "not 'quick'" tamis plan --sizes sizes --bytes 1M --kind quick
    fails 2 "for a STORE or" tamis plan --keys 1M --fpr 1% --kind ribbon
    fails 2 "smaller is for 'tamis plan'" tamis build store s --kind smaller
}

@test "--apply makes ribbons from lists, and leaves those that are as good" {
    tamis init store
    seq 100000 | tamis build store a --rank 0 --list
    seq 200000 500000 | tamis build store b --rank 1 --list
    seq 700000 720000 | tamis build store c --rank 2
    exits 0 tamis plan store --bytes 380K --kind smaller --apply
    [[ $output == *"rebuilt  a from its list"* && $output == *"rebuilt  b from its list"* ]]
    [[ $output == *"rebuild  c: "*"--kind ribbon --replaces c"* ]]
    tamis verify store
    plan store --bytes 380K --kind smaller
    is '[.segments[].action] == ["keep", "keep", "rebuild"]'
    seq 100000 | tamis verify store a --against -
}

# Each limit is what the plan takes to the byte.
@test "--apply of ribbons keeps the limit, or says how far it is off" {
    tamis init store
    local n limit now over=0
    for n in 60000 90000 200000; do
        seq "${n}" "$((2 * n))" | tamis build store s$n --rank $n --list --fpr 5%
    done
    for limit in 1500000 1200000 900000; do
        plan store --bytes $limit --kind ribbon
        limit=$(p .planned.bytes)
        capture tamis plan store --bytes "$limit" --kind ribbon --apply
        [[ $output =~ ' '([0-9]+)' bytes of filters now' ]]
        now=${BASH_REMATCH[1]}
        if [ "$now" -le "$limit" ]; then [ "$status" -eq 0 ]; else
            over=$((over + 1))
            [ "$status" -eq 2 ]
            [[ $stderr == "tamis: store: its filters take $now bytes, $((now - limit)) more than --bytes: "* ]]
        fi
        [ "$now" -eq "$(tamis ls store --json | jq 'map(.bytes) | add')" ]
    done
    [ $over -le 1 ]
}

@test "a filter that is a little larger than planned stays only if there is room" {
    tamis init store
    seq 1 600000 | tamis build store a --list --fpr 1%
    now=$(tamis ls store --json | jq '.[0].bytes')
    tells '^rebuilt  a from its list' tamis plan store --bytes $((now - 4096)) --apply
    prints " $(tamis ls store --json | jq '.[0].bytes') bytes of filters now"
    [ "$(tamis ls store --json | jq '.[0].bytes')" -lt "$now" ]
}

# One store, for the words of the command, too, looks like an option, and has a space.
@test "--apply and a taken name print commands that sh takes literally" {
    local at=0 name line st='-s t' sh=sh
    seq 20000 >KEYFILE
    for name in "it's" 'a b' '*' -seg '-l o' -- '\ $HOME `x`' '"~' $'1\t'; do
        [[ $name != *$'\t' ]] || sh=bash # no other way to write a tab
        rm -rf "./$st"
        tamis init -- "$st"
        tamis build -q --fpr 5% -- "$st" "$name" KEYFILE
        ok tamis plan --bytes 100K --apply -- "$st"
        line=$(sed -n 's/^rebuild .*: tamis/tamis/p' <<<"$output")
        ok $sh -c "$line"
        ok tamis plan --bytes 100K --json -- "$st"
        [ "$(jq -r '.segments | map(.action) | join(" ")' <<<"$output")" = keep ]
        ok tamis plan --bytes 0 --apply -- "$st"
        line=$(sed -n 's/^remove .*: tamis/tamis/p' <<<"$output")
        ok $sh -c "$line"
        [ "$(tamis ls "./$st" --json | jq -c 'map(.state)')" = '["bare"]' ]
        fails 2 "exists already: --replaces .*'.*' replaces it" tamis build -q -- "$st" "$name" KEYFILE
        line=$(sed 's/.*: \(--replaces .*\) replaces it/\1/' <<<"$stderr")
        ok $sh -c "tamis build './$st' $line -- \"\$0\" KEYFILE" "$name"
        # A growing segment.
        echo x | tamis grow --rank $((++at)) -- "$st" "g$name"
        echo x | tamis grow -- "$st" "$name.g"
        ok tamis plan --bytes 100K --apply -- "$st"
        grep '^seal ' <<<"$output" | sed 's/.*: tamis/tamis/' >lines
        ok $sh -e lines
        [ "$(tamis ls "./$st" --json | jq -c 'map(.state) | unique')" = '["sealed"]' ]
    done
}
