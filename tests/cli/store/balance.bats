# Sizes of the filters of one edit: build --each.
load ../common

make_lists() {
    mkdir lists
    for i in $(seq 10 29); do
        seq -f "key-$i-%.0f" $((6700 + i * 2)) >"lists/$i"
    done
}

sizes() { tamis ls "$1" --json | jq -r '.[] | "\(.segment) \(.bytes) \(.error)"'; }

# The first list comes last: then all others are read.
@test "sizes do not depend on the number of threads" {
    make_lists
    mv lists/10 first
    mkfifo lists/10
    for jobs in 1 2 4; do
        tamis init "s$jobs"
        tamis build "s$jobs" --each lists/* -j "$jobs" 3>&- &
        soon waits_with $! 10
        cat first >lists/10
        wait $!
        sizes "s$jobs" >"sizes$jobs"
    done
    cmp sizes1 sizes2
    cmp sizes1 sizes4
}

@test "an error that is given is met by each filter" {
    make_lists
    tamis init mean
    tamis init each
    ok tamis build mean --each lists/* -j 2
    ok tamis build each --each lists/* -j 2 --fpr 1%
    [ "$(sizes mean | awk '$3 > 0.01 { n++ } END { print (n > 0) }')" -eq 1 ]
    [ "$(sizes mean | awk '$3 > 0.0125 { n++ } END { print n + 0 }')" -eq 0 ]
    [ "$(sizes each | awk '$3 != 0.01 { n++ } END { print n + 0 }')" -eq 0 ]
    [ "$(sizes mean | awk '{ n += $2 } END { print n }')" -lt \
        "$(sizes each | awk '{ n += $2 } END { print n }')" ]
}

@test "a larger error that was meant is not over target" {
    make_lists
    tamis init store
    ok tamis build store --each lists/*
    ok tamis stat store --json
    [ "$(jq .over_target <<<"$output")" -eq 0 ]
}

@test "a list that fails while others wait ends the build" {
    make_lists
    head -c 300000 /dev/zero >lists/10
    tamis init store
    fails 2 "lists/10" timeout 20 tamis build store --each lists/* -j 4
    [ "$(tamis ls store | wc -l)" -eq 0 ]
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
    tamis init store
    timeout 20 bash -c "$(declare -f feed_long_list); feed_long_list >lists/10" &
    ok timeout 20 tamis build store --each lists/* -j 2
    [ "$(tamis ls store 10 --json | jq '.[0].keys')" -eq 1300001 ]
    [ "$(tamis ls store 10 --json | jq '.[0].error')" = 0.01 ]
}
