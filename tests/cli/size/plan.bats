# Planning: our own figures.
load ../common

@test "two of keys, error and bytes give the third" {
    tells 'bits per key +(9|10)\.' tamis plan --keys 1000000 --fpr 0.01
    tells 'keys +5[0-9]{5}' tamis plan --bytes 1M --fpr 0.001
    tells 'error +0.01' tamis plan --bytes 1M --keys 1000000
    fails 2 "two of" tamis plan --keys 5
    fails 2 "two of" tamis plan
    fails 2 "two of" tamis plan --keys 5 --fpr 0.1 --bytes 5K
}

@test "the stages of a growing filter stay within its error" {
    ok tamis plan --growth --fpr 0.01 --keys 100000000
    awk 'NR > 1 && $NF > 0.01 { exit 1 }' <<<"$output"
    ok tamis plan --growth -s 4 -r 0.9 --n0 1000
    [ "${#lines[@]}" -eq 11 ]
    tells '"stages": ' tamis plan --growth --json
    # The same growth as a new store has.
    tamis init store
    [ "$(jq -c '[.factor, .tightening, .n0]' <<<"$output")" = "$(tamis stat store --json | jq -c '[.factor, .tightening, .n0]')" ]
    # 30 stages, and no more.
    ok tamis plan --growth -s 1.25 --keys 256T
    sum=$(awk '$1 == 29 { print $5 }' <<<"$output")
    [ "${lines[-1]}" = "no more stages: the last one takes the other $((256 * 10 ** 12 - sum)) keys, above its error" ]
    ok tamis plan --growth -s 1.25 --keys 256T --json
    [ "$(jq '.keys_left + .stages[-1].sum_keys' <<<"$output")" = $((256 * 10 ** 12)) ]
    ok tamis plan --growth -s 1.25 --keys 1M --json
    [ "$(jq '.keys_left' <<<"$output")" = null ]
    fails 2 "no --bytes" tamis plan --growth --bytes 5
    fails 2 "are for --growth" tamis plan --keys 5 --fpr 0.1 -s 2
}

@test "bad numbers" {
    fails 2 "--bytes is 0..*K, M, G" tamis plan --bytes 5X --fpr 0.1
    fails 2 "--bytes" tamis plan --bytes 99999999999999999T --fpr 0.1
    fails 2 "--keys" tamis plan --keys many --fpr 0.1
    fails 2 "too large.*: take fewer --bytes" tamis plan --bytes 256T --keys 1
    fails 2 "plan: --keys is at least 1, not 0: see" tamis plan --bytes 64K --keys 0
    fails 2 "too large.*: take fewer --keys" tamis plan --keys 256T --fpr 1e-8
    fails 2 "plan: --bytes is at least 4096, not 1: see" tamis plan --bytes 1 --keys 1
    fails 2 "--bytes is at least 4096, not 1024: see" tamis plan --bytes 1K --fpr 1%
    ok tamis plan --bytes 4096 --fpr 1%
}

@test "counts are decimal, bytes are binary" {
    for keys in 10000000 10M 10m 10000k 0.01G 1e7 1E7 0.1e8; do
        tells '^keys +10000000'$'\n' tamis plan --keys $keys --fpr 1%
    done
    tells '^keys +1500'$'\n' tamis plan --keys 1.5k --fpr 1%
    [ "$(tamis plan --bytes 1.5M --fpr 1% --json)" = "$(tamis plan --bytes 1572864 --fpr 1% --json)" ]
    [ "$(tamis plan --bytes 1m --fpr 1% --json)" = "$(tamis plan --bytes 1048576 --fpr 1% --json)" ]
    ok tamis plan --growth --n0 64k --keys 1 --json
    [ "$(jq .n0 <<<"$output")" -eq 64000 ]
    ok tamis init store --n0 1e5
    [ "$(tamis stat store --json | jq .n0)" -eq 100000 ]
    printf '1.5M 0 a\n2e6 1 b\n3g 2 c\n' >sizes
    tamis plan --sizes sizes --bytes 64M --json | jq -e '[.segments[].keys] == [1500000, 2000000, 3000000000]'
    for keys in 1.2345k 1e 1e-3 1.M .5M 10MM 10Mi 1e99 1e100 -1 +1 ' 1' 0x10 18446744073709551616 ''; do
        fails 2 "--keys is 0..281474976710656 \(k, M, G and T are powers of 1000\), not '" \
            tamis plan --keys "$keys" --fpr 1%
    done
    fails 2 "--n0 is 1..4294967296 \(k, M, G and T are powers of 1000\), not '5G'" tamis init s --n0 5G
    fails 2 "--bytes is 0..281474976710656 \(K, M, G and T are powers of 1024\)" \
        tamis plan --bytes 0.3K --fpr 1%
    fails 2 "'1.0001k': a line is KEYS .*powers of 1000" tamis plan --sizes - --bytes 1M <<<1.0001k
    # A position, a rank and a factor are numbers, and no counts.
    fails 2 "--rank is 0..4294967295, not '1k'" tamis build store a /dev/null --rank 1k
}

@test "lanes and words: the smallest of each, and why" {
    for row in "1M 1% 1" "1M 0.0001% 3" "1M 1e-8 3" "100M 0.1% 2"; do
        set -- $row
        tamis plan --keys $1 --fpr $2 --json >plan.json
        # By the bits: whole pages that fold may cost 0.8% more.
        jq -e --argjson lanes $3 '[.by_lanes[].bits_bytes] as $b | ($b | min) as $least |
            .lanes == $lanes and .by_lanes[$lanes - 1].chosen
            and .by_lanes[$lanes - 1].bits_bytes == .bits_bytes
            and .bits_bytes <= $least * 1.05
            and ([.by_lanes[:$lanes - 1][].bits_bytes] | all(. > $least * 1.03))
            and .by_lanes[0].lines == 1' plan.json
    done
}

# So few keys have an error far below the one that is asked for, and the first lane knows.
@test "the lines of a filter of a key are those of its own error" {
    for keys in 0 1; do
        ok tamis plan --keys $keys --fpr 1%
        [ "$(grep -c ' 1[.]00' <<<"$output")" -eq 4 ]
        tamis plan --keys $keys --fpr 1% --json | jq -e '.by_lanes | all(.lines < 1.01)'
    done
    tamis plan --keys 1M --fpr 1% --json | jq -e '.by_lanes[1].lines | . > 1.09 and . < 1.11'
}

@test "what a growing filter costs at each size" {
    tamis plan --growth --fpr 1% --keys 1M --n0 1000 --json >plan.json
    jq -e '.stages | ([.[].keys] | add) == .[-1].sum_keys
        and (([.[].bits_bytes] | add) * 8 / .[-1].sum_keys - .[-1].sum_bits_per_key | fabs < 1e-9)
        and ([.[].sum_error] | . == sort) and .[-1].sum_error <= 0.01
        and .[-1].sum_lines >= length and .[-1].sum_lines < 1.2 * length' plan.json
}

@test "the pack of a list is planned, and is as large as planned" {
    for i in $(seq 30); do seq $((i * 1000)) $((i * 1000 + i * 20)) >s$i.keys; done
    wc -l s*.keys | awk '$2 != "total" { print $1 }' >sizes
    tells "^segments +30, 9330 keys" tamis plan --sizes sizes --fpr 1% --pack
    prints "packed from keys .* bits per key, [0-9]+ bands?, [0-9]+ lines"
    tamis init store
    ok tamis build store --each s*.keys --fpr 1%
    plan=$(tamis plan --sizes sizes --fpr 1% --pack --json)
    gives "$plan" tamis plan store --fpr 1% --pack --json
    ok tamis pack store --json
    [ "$(jq .rows_bytes <<<"$output")" -le "$(jq .from_files.rows_bytes <<<"$plan")" ]
    [ "$(jq .bands <<<"$output")" -eq "$(jq .from_files.bands <<<"$plan")" ]
    ok tamis plan --keys 300k --fpr 1% --pack
    fails 2 "needs --fpr" tamis plan --sizes sizes --pack
    fails 2 "one of --sizes" tamis plan --fpr 1% --pack
    fails 2 "one of --sizes" tamis plan store --keys 3 --fpr 1% --pack
    fails 2 "goes with" tamis plan --sizes sizes --fpr 1% --pack --bytes 1M
    fails 2 "unexpected" tamis plan store more --fpr 1% --pack
    tamis init empty
    fails 2 "1 to 1048576 segments" tamis plan empty --fpr 1% --pack
    echo 281474976710656 >sizes
    fails 2 "fewer keys" tamis plan --sizes sizes --fpr 1e-8 --pack
}
