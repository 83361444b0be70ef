# The demo's program for an engine, $BLOCKS, on lists of our own: tamis saves reads and
# loses no path. check-rocksdb and check-leveldb run this.
bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    mkdir db
}

# 40 lists of 1,000 paths, in no order, some of them in two lists.
lists() {
    seq 39800 | awk '{ n = $1 * 7919 % 39800; f = "p" int($1 / 1000) ".list"
        print "/usr/share/package/" n "/a-file-of-some-length" >f
        if (n % 200 == 0) print "/usr/share/package/" n >"p39.list"
        if (n % 400 == 0) print "/usr/share/package/" n >"p0.list" }'
}

@test "with tamis fewer blocks are read, and every path is found" {
    lists
    run --separate-stderr "$BLOCKS" db *.list
    echo "$output $stderr"
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    # "   with... BLOCKS PER-PATH FOUND of ASKED"
    awk '/^   without tamis/ { without = $(NF - 4); found = $(NF - 2); asked = $NF }
        /^   with tamis/ { with = $(NF - 4); n++; found2 = $(NF - 2); asked2 = $NF }
        END { exit !(n == 1 && asked > 10000 && asked2 == asked && found == asked &&
            found2 == asked && without * 1.01 >= asked && with * 20 < without) }' <<<"$output"
}

@test "no paths, or a list that cannot be read, is a failure" {
    : >empty.list
    for list in empty.list missing.list; do
        run --separate-stderr "$BLOCKS" db $list
        [ "$status" -eq 1 ]
        [[ $stderr == "demo: FAILED: "* ]]
    done
}

@test "a database that cannot be made is a failure" {
    lists
    run --separate-stderr "$BLOCKS" db/no/such/directory *.list
    [ "$status" -eq 1 ]
    [[ $stderr == *"demo: FAILED: "* ]]
}
