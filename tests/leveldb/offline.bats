# tamis-leveldb: filters of a database's tables. $DATABASE makes databases.
load ../cli/common

BUILD=$BATS_TEST_DIRNAME/../../build
OFFLINE=$(realpath "${OFFLINE:-$BUILD/tamis-leveldb}")
DATABASE=$(realpath "${DATABASE:-$BUILD/tests/leveldb/database}")

# fill DIR N: a database of N keys, with many tables and tombstones, and nothing in its log.
fill() {
    "$DATABASE" fill "$1" "$2"
    "$DATABASE" flush "$1"
}

# db and an empty store.
make_database() {
    fill db "${1:-30000}"
    tamis init store
}

# Each segment has the keys of the table of its name, as the test reads them, and as many.
# (Not every table file is live: a compaction that was cut short leaves some.)
check_segments() {
    rm -rf keys && mkdir keys
    tamis ls store --json >list.json
    jq -r '.[].segment' list.json >names
    xargs "$DATABASE" keys db keys <names >tombstones
    while read -r name; do
        [ "$(wc -l <"keys/$name")" -eq \
            "$(jq ".[] | select(.segment == \"$name\") | .keys" list.json)" ]
    done <names
    ok tamis verify store --hex --against-each keys/*
}

# And no key that the database has is absent from all.
check_store() {
    check_segments
    rm -rf copy
    cp -r db copy
    "$DATABASE" all copy >all
    [ "$(wc -l <all)" -gt "${1:-1000}" ]
    tamis probe store --hex --keys all >answers
    [ "$(grep -c ABSENT answers)" -eq 0 ]
}

teardown() {
    [ -z "${writer:-}" ] || kill -KILL "$writer" 2>/dev/null || true
}

changed() {
    tamis ls store --json | jq -c '[.[] | [.segment, .uuid]]'
}

@test "every table gets a filter of all its keys, tombstones too" {
    make_database
    ok "$OFFLINE" store db
    prints '^[0-9]+ tables: [0-9]+ built, 0 kept, 0 without a filter, 0 dropped; [0-9]+ keys'
    check_store
    [ "$(wc -l <names)" -gt 3 ]
    [ "$(cat tombstones)" -gt 1000 ]
    # A key that is nowhere is absent, nearly always.
    seq 100000 100999 >missing
    tamis probe store --keys missing >answers
    [ "$(grep -c 'ABSENT' answers)" -gt 800 ]
}

@test "old segments stay, new ones are built, missing ones are dropped" {
    make_database
    printf 'k\n' | tamis build store mine
    ok "$OFFLINE" --fpr 0.1% store db
    before=$(changed)
    ok "$OFFLINE" store db
    prints ': 0 built, [0-9]+ kept, 0 without a filter, 0 dropped; 1 of no database left alone$'
    [ "$(changed)" = "$before" ]
    fill db 9000
    tells '[1-9][0-9]* built.*, [1-9][0-9]* dropped' "$OFFLINE" store db
    [ "$(grep -c '^  dropped   0' <<<"$output")" -eq "$(sed -n 's/.* \([0-9]*\) dropped.*/\1/p' <<<"$output")" ]
    ok tamis drop store mine
    check_store
}

@test "a database that is made anew has the same numbers, and other filters" {
    make_database
    ok "$OFFLINE" store db
    rm -rf db
    fill db 30001
    ok tamis ls store --names
    for name in "${lines[@]}"; do [ -e "db/$name" ]; done
    before=$(changed)
    fails 3 'it mirrors another LevelDB database' "$OFFLINE" store db
    [ "$(changed)" = "$before" ]
    tells '  replaced  .*was of another LevelDB database' "$OFFLINE" --force store db
    check_store
}

@test "the log is said, and the binding is the file's size and digest" {
    "$DATABASE" fill db 5000
    tamis init store
    tells 'KiB of log: its keys are in no table and no segment yet' "$OFFLINE" store db
    name=$(cd db && ls ./*.ldb | head -n 1 | cut -c 3-)
    sum=$(xxhsum -H3 "db/$name" | sed 's/^XXH3_//; s/.*= //; s/ .*//')
    identity=$("$OFFLINE" --json store db | jq -r .identity)
    [[ $identity =~ ^leveldb:[0-9a-f]{16}$ ]]
    binding=$(printf %s "$identity/$(stat -c %s "db/$name")/$sum" | od -An -v -tx1 | tr -d ' \n')
    tamis ls store --json | jq -e ".[] | select(.segment == \"$name\") | .binding == \"$binding\""
}

@test "no table is no error, and one is no tables" {
    "$DATABASE" fill db 0
    tamis init store
    tells '^0 tables' "$OFFLINE" store db
    fill db 100
    tells '^1 table: 1 built, 0 kept, 0 without a filter, 0 dropped; [0-9]+ keys' "$OFFLINE" store db
}

@test "no database, no store, and mistakes" {
    make_database 2000
    mkdir empty
    : >file
    fails 5 'nowhere: ' "$OFFLINE" store nowhere
    fails 3 'empty: no LevelDB database: it has no CURRENT' "$OFFLINE" store empty
    fails 3 'file: no LevelDB database: it is no directory' "$OFFLINE" store file
    fails 5 'nowhere: .*tamis init' "$OFFLINE" nowhere db
    printf 'MANIFEST-000099\n' >empty/CURRENT
    fails 3 'its CURRENT names a missing file' "$OFFLINE" store empty
    fails 2 'STORE and a DATABASE' "$OFFLINE" store
    fails 2 'STORE and a DATABASE' "$OFFLINE" store db more
    fails 2 'fpr' "$OFFLINE" --fpr 2 store db
    fails 2 'no such option' "$OFFLINE" --what store db
    tells '^usage: tamis-leveldb' "$OFFLINE" --help
}

@test "another comparator is refused" {
    "$DATABASE" other db
    tamis init store
    fails 3 'its comparator is test.IgnoreCase' "$OFFLINE" store db
    [ "$(changed)" = '[]' ]
}

@test "damaged tables are refused, and nothing changes" {
    make_database 2000
    ok "$OFFLINE" store db
    before=$(changed)
    fill db 3000
    last=$(ls db/*.ldb | tail -n 1)
    cp "$last" good
    flip "$last" 100
    fails 3 "$last: damaged: .*block checksum mismatch" "$OFFLINE" store db
    : >"$last"
    fails 3 "$last: damaged: it has 0 bytes" "$OFFLINE" store db
    head -c 1000 good >"$last"
    fails 3 "$last: damaged: it has 1000 bytes" "$OFFLINE" store db
    head -c "$(stat -c %s good)" /dev/urandom >"$last"
    fails 3 "$last: damaged: .*not an sstable" "$OFFLINE" store db
    rm "$last"
    fails 3 'is listed, and not there' "$OFFLINE" store db
    mkdir "$last"
    fails 3 'no regular file' "$OFFLINE" store db
    rmdir "$last"
    [ "$(changed)" = "$before" ]
    cp good "$last"
    ok "$OFFLINE" store db
    check_store
}

@test "a table in another's place is refused" {
    fill db 4000
    tamis init store
    first=$(ls db/*.ldb | head -n 1)
    last=$(ls db/*.ldb | tail -n 1)
    [ "$first" != "$last" ]
    # The size must stay: LevelDB finds the footer from the end.
    size=$(stat -c %s "$first")
    other=$(stat -c %s "$last")
    [ "$size" -gt "$other" ] || { t=$first first=$last last=$t t=$size size=$other other=$t; }
    # The larger one's place is taken by a file of its size that holds the smaller one.
    cp "$first" good
    { cat good | head -c $((size - other)); cat "$last"; } >"$first"
    fails 3 "$first: damaged" "$OFFLINE" store db
}

@test "a damaged MANIFEST or CURRENT is refused" {
    make_database 2000
    manifest=db/$(cat db/CURRENT)
    cp "$manifest" good
    for at in 0 8 20 40; do
        flip "$manifest" $at
        fails 3 'db: damaged: MANIFEST' "$OFFLINE" store db
        cp good "$manifest"
    done
    printf 'MANIFEST' >db/CURRENT
    fails 3 'CURRENT names no MANIFEST' "$OFFLINE" store db
    : >db/CURRENT
    fails 3 'CURRENT names no MANIFEST' "$OFFLINE" store db
    printf '%s\n' "${manifest#db/}" >db/CURRENT
    ok "$OFFLINE" store db
}

# is_in STATE: the writer's process, by its letter.
is_in() {
    grep -q "^State:.$1" "/proc/$writer/status"
}
has_written() {
    [ -s rounds ]
}

@test "a database that is being written: consistent, or busy, never wrong" {
    tamis init store
    "$DATABASE" busy db >rounds 3>&- &
    writer=$!
    soon has_written
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
        capture "$OFFLINE" store db
        case $status in
        0) ;;
        6) [[ $stderr =~ "is being written" ]] ;;
        *) explain '0 or 6' ;;
        esac
    done
    # It may be too fast for any of these; but in whatever it is stopped, its tables are
    # those of one moment.
    for _ in 1 2 3 4; do
        kill -STOP "$writer"
        soon is_in T
        ok "$OFFLINE" store db
        check_segments
        kill -CONT "$writer"
        sleep 0.1
    done
    kill "$writer"
    wait "$writer" || true
    # At rest it is right again. Nothing new is put: a key that is in the log alone has no
    # filter, and a compaction may have removed the last trace of it in the tables.
    "$DATABASE" flush db
    ok "$OFFLINE" store db
    check_store
}

# seen: the list with bindings, and the files.
seen() {
    tamis ls store --json | jq -c '[.[] | [.segment, .uuid, .binding]]'
    ls store/filters
}

@test "a store is of one database: another one is refused, or takes it by force" {
    make_database 9000
    fill other 5000
    ok "$OFFLINE" store db
    before=$(seen)
    fails 3 'it mirrors another LevelDB database: .*--force' "$OFFLINE" store other
    fails 3 'it mirrors another LevelDB database' "$OFFLINE" --dry-run store other
    [ "$(seen)" = "$before" ]
    # By whichever name.
    mv db moved
    tells ': 0 built, [1-9][0-9]* kept, 0 without a filter, 0 dropped$' "$OFFLINE" store moved
    # A copy is another one; its tables are the same, so the filters stay.
    cp -r moved db
    fails 3 'it mirrors another LevelDB database' "$OFFLINE" store db
    tells ': 0 built, [1-9][0-9]* kept, 0 without a filter, 0 dropped$' "$OFFLINE" --force store db
    fails 3 'it mirrors another LevelDB database' "$OFFLINE" store moved
    ok tamis verify store
    tells '  dropped   .*was of another LevelDB database' "$OFFLINE" --force store other
    rm -rf db && mv other db
    check_store 500
}

@test "segments of others stay, and are replaced by force alone" {
    make_database 3000
    printf 'k\n' | tamis build store mine
    ok "$OFFLINE" store db
    name=$(tamis ls store --names | grep -m 1 ldb)
    tamis drop store "$name"
    printf 'k\n' | tamis build store "$name"
    before=$(seen)
    fails 3 "segment $name is of no database: drop it, or replace it by --force" "$OFFLINE" store db
    [ "$(seen)" = "$before" ]
    tells "  replaced  $name  \\(was of no database\\)" "$OFFLINE" --force store db
    prints '  dropped   mine  \(was of no database\)'
    check_store 500
    printf 'k\n' | tamis build store 000001.sst --bind "$(printf 'rocksdb:0123456789abcdef/S/1' | od -An -v -tx1 | tr -d ' \n')"
    fails 3 'it mirrors a RocksDB database: it has its segment 000001.sst' "$OFFLINE" store db
}

@test "a dry run says what would change, and changes nothing" {
    make_database 3000
    before=$(seen)
    tells '^dry run: [1-9][0-9]* tables: [1-9][0-9]* built' "$OFFLINE" --dry-run store db
    prints '  built     0'
    [ "$(seen)" = "$before" ]
    ok "$OFFLINE" store db
    fill db 9000
    before=$(seen)
    ok "$OFFLINE" --dry-run store db
    said=${lines[0]#dry run: }
    [ "$(seen)" = "$before" ]
    ok "$OFFLINE" store db
    [ "${lines[0]%;*}" = "$said" ]
}

@test "a RocksDB database is named as one" {
    make_database 2000
    : >db/IDENTITY
    fails 3 'this is a RocksDB database: use tamis-rocksdb' "$OFFLINE" store db
    [[ ! $stderr =~ repair ]]
    rm db/IDENTITY
    : >db/OPTIONS-000007
    fails 3 'this is a RocksDB database: use tamis-rocksdb' "$OFFLINE" store db
    rm db/OPTIONS-000007
    ok "$OFFLINE" store db
}

@test "the next run removes the remains of a killed one" {
    make_database 30000
    for _ in $(seq 60); do
        "$OFFLINE" store db >/dev/null 2>&1 3>&- &
        writer=$!
        while [ -z "$(ls store/filters)" ] && kill -0 "$writer" 2>/dev/null; do :; done
        kill -KILL "$writer" 2>/dev/null || :
        wait "$writer" 2>/dev/null || :
        [ "$(tamis ls store --names | wc -l)" -ne 0 ] || [ -z "$(ls store/filters)" ] || break
        rm -rf store && tamis init store
    done
    [ -n "$(ls store/filters)" ]
    [ -z "$(tamis ls store --names)" ]
    exits 0 "$OFFLINE" store db
    [ "$(ls store/filters | wc -l)" -eq "$(tamis ls store --names | wc -l)" ]
    check_store
}

@test "tamis-json(5) has the fields that --json prints" {
    make_database 9000
    ok "$OFFLINE" --json store db
    printf '%s\n' "$output" >runs
    fill db 3000
    ok "$OFFLINE" --json store db
    printf '%s\n' "$output" >>runs
    jq -r 'paths | map(if type == "number" then "[]" else "." + . end) | join("") | ltrimstr(".")' runs | sort -u >found
    man=$BATS_TEST_DIRNAME/../../tools/man
    awk -v section='tamis-leveldb, tamis-rocksdb' -f "$man/fields.awk" "$man/json.fields" |
        cut -f1 | sort -u >page
    diff page found
    ok "$OFFLINE" --json --dry-run store db
    [ "$(jq .dry_run <<<"$output")" = true ]
}

@test "the help does not promise what is not so" {
    ok "$OFFLINE" --help
    [[ ! $output =~ 'nothing has changed' ]]
    [ "$(wc -l <<<"$output")" -le 24 ]
    [ "$(wc -L <<<"$output")" -le 80 ]
}

@test "closed descriptors, a limit of file sizes, and whose message it is" {
    make_database 2000
    ok "$OFFLINE" store db
    before=$(changed)
    # Its output goes nowhere, not into a file that got the descriptor.
    exits 4 bash -c 'exec "$0" store db >&- 2>&-' "$OFFLINE"
    fails 5 "tamis-leveldb: nowhere: " bash -c 'exec "$0" store nowhere' "$OFFLINE"
    [ "$before" = "$(changed)" ]
    ok tamis verify store
    rm -rf store && tamis init store
    fails 4 "ulimit -f" bash -c 'ulimit -f 8; exec "$0" store db' "$OFFLINE"
    [ "$("$OFFLINE" -V)" = "$("$OFFLINE" --version)" ]
    ok "$OFFLINE" -h
}
