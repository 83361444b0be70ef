# Sizes of the filters of one edit: build --each.
load ../common

make_lists() {
    mkdir lists
    for i in $(seq 10 29); do
        seq -f "key-$i-%.0f" $((6700 + i * 2)) >"lists/$i"
    done
}

sizes() { "$TAMIS" ls "$1" --json | jq -r '.[] | "\(.segment) \(.bytes) \(.error)"'; }

# The first list comes last: then all others are read.
@test "sizes do not depend on the number of threads" {
    make_lists
    mv lists/10 first
    mkfifo lists/10
    for jobs in 1 2 4; do
        "$TAMIS" init "s$jobs"
        (sleep 0.5 && cat first) >lists/10 &
        ok "$TAMIS" build "s$jobs" --each lists/* -j "$jobs"
        sizes "s$jobs" >"sizes$jobs"
    done
    cmp sizes1 sizes2
    cmp sizes1 sizes4
}

@test "an error that is given is met by each filter" {
    make_lists
    "$TAMIS" init mean
    "$TAMIS" init each
    ok "$TAMIS" build mean --each lists/* -j 2
    ok "$TAMIS" build each --each lists/* -j 2 --fpr 1%
    [ "$(sizes mean | awk '$3 > 0.01 { n++ } END { print (n > 0) }')" -eq 1 ]
    [ "$(sizes mean | awk '$3 > 0.0125 { n++ } END { print n + 0 }')" -eq 0 ]
    [ "$(sizes each | awk '$3 != 0.01 { n++ } END { print n + 0 }')" -eq 0 ]
    [ "$(sizes mean | awk '{ n += $2 } END { print n }')" -lt \
        "$(sizes each | awk '{ n += $2 } END { print n }')" ]
}

@test "a larger error that was meant is not over target" {
    make_lists
    "$TAMIS" init store
    ok "$TAMIS" build store --each lists/*
    ok "$TAMIS" stat store --json
    [ "$(jq .over_target <<<"$output")" -eq 0 ]
}

@test "a list that fails while others wait ends the build" {
    make_lists
    head -c 300000 /dev/zero >lists/10
    "$TAMIS" init store
    fails 2 "lists/10" timeout 20 "$TAMIS" build store --each lists/* -j 4
    [ "$("$TAMIS" ls store | wc -l)" -eq 0 ]
}

# It ends when the filters of others are there.
feed_long_list() {
    seq 1300000
    until [ "$(find store/filters -name '*.tamis' | wc -l)" -ge 19 ]; do sleep 0.05; done
    echo last
}

@test "nobody waits for the rest of a long list" {
    make_lists
    rm lists/10
    mkfifo lists/10
    "$TAMIS" init store
    timeout 20 bash -c "$(declare -f feed_long_list); feed_long_list >lists/10" &
    ok timeout 20 "$TAMIS" build store --each lists/* -j 2
    [ "$("$TAMIS" ls store 10 --json | jq '.[0].keys')" -eq 1300001 ]
    [ "$("$TAMIS" ls store 10 --json | jq '.[0].error')" = 0.01 ]
}
