# Sizes of the filters of one edit: build --each.
load ../common

make_lists() {
    mkdir lists
    for i in $(seq 10 29); do
        seq -f "key-$i-%.0f" $((6700 + i * 2)) >"lists/$i"
    done
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
