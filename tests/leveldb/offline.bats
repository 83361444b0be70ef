# tamis-leveldb: filters of a database's tables. $DATABASE makes databases.
load ../cli/common

BUILD=$BATS_TEST_DIRNAME/../../build
OFFLINE=$(realpath "${OFFLINE:-$BUILD/tamis-leveldb}")
DATABASE=$(realpath "${DATABASE:-$BUILD/tests/leveldb/database}")

# db, with many tables and tombstones, and an empty store.
make_database() {
    "$DATABASE" fill db "${1:-30000}"
    "$DATABASE" flush db
    "$TAMIS" init store
}

# Each segment has the keys of the table of its name, as the test reads them, and as many.
# (Not every table file is live: a compaction that was cut short leaves some.)
check_segments() {
    rm -rf keys && mkdir keys
    "$TAMIS" ls store --json >list.json
    jq -r '.[].segment' list.json >names
    xargs "$DATABASE" keys db keys <names >tombstones
    while read -r name; do
        [ "$(wc -l <"keys/$name")" -eq \
            "$(jq ".[] | select(.segment == \"$name\") | .keys" list.json)" ]
    done <names
    ok "$TAMIS" verify store --hex --against-each keys/*
}

# And no key that the database has is absent from all.
check_store() {
    check_segments
    rm -rf copy
    cp -r db copy
    "$DATABASE" all copy >all
    [ "$(wc -l <all)" -gt "${1:-1000}" ]
    "$TAMIS" probe store --hex --keys all >answers
    [ "$(grep -c ABSENT answers)" -eq 0 ]
}

teardown() {
    [ -z "${writer:-}" ] || kill -KILL "$writer" 2>/dev/null || true
}

changed() {
    "$TAMIS" ls store --json | jq -c '[.[] | [.segment, .uuid]]'
}

@test "every table gets a filter of all its keys, tombstones too" {
    make_database
    ok "$OFFLINE" store db
    prints '^[0-9]+ tables: [0-9]+ built of [0-9]+ keys, 0 kept, 0 dropped'
    check_store
    [ "$(wc -l <names)" -gt 3 ] && [ "$(cat tombstones)" -gt 1000 ]
    # A key that is nowhere is absent, nearly always.
    seq 100000 100999 >missing
    "$TAMIS" probe store --keys missing >answers
    [ "$(grep -c 'ABSENT' answers)" -gt 800 ]
}

@test "what is there stays, what is new is built, what is gone is dropped" {
    make_database
    printf 'k\n' | "$TAMIS" build store mine
    ok "$OFFLINE" --fpr 0.1% store db
    before=$(changed)
    ok "$OFFLINE" store db
    prints '0 built of 0 keys, [0-9]+ kept, 0 dropped'
    [ "$(changed)" = "$before" ]
    "$DATABASE" fill db 9000
    "$DATABASE" flush db
    ok "$OFFLINE" store db
    prints '[1-9][0-9]* built .*, [1-9][0-9]* dropped'
    ok "$TAMIS" drop store mine
    check_store
}

@test "a database that is made anew has the same numbers, and other filters" {
    make_database
    ok "$OFFLINE" store db
    rm -rf db
    "$DATABASE" fill db 30001
    "$DATABASE" flush db
    ok "$TAMIS" ls store --names
    for name in "${lines[@]}"; do [ -e "db/$name" ]; done
    ok "$OFFLINE" store db
    prints ' 0 kept, 0 dropped'
    check_store
}

@test "the log is said, and the binding is the file's size and digest" {
    "$DATABASE" fill db 5000
    "$TAMIS" init store
    ok "$OFFLINE" store db
    prints 'KiB of log: what is in it is in no table and in no segment yet'
    name=$(cd db && ls ./*.ldb | head -n 1 | cut -c 3-)
    size=$(printf '%016x' "$(stat -c %s "db/$name")" | fold -w 2 | tac | tr -d '\n')
    sum=$(xxhsum -H3 "db/$name" | sed 's/^XXH3_//; s/.*= //; s/ .*//' | fold -w 2 | tac | tr -d '\n')
    "$TAMIS" ls store --json | jq -e ".[] | select(.segment == \"$name\") | .binding == \"$size$sum\""
}

@test "an empty database is no error, and has no segments" {
    "$DATABASE" fill db 0
    "$TAMIS" init store
    ok "$OFFLINE" store db
    prints '^0 tables'
}

@test "no database, no store, and mistakes" {
    make_database 2000
    mkdir empty
    : >file
    fails 5 'nowhere: ' "$OFFLINE" store nowhere
    fails 5 'empty: no LevelDB database: it has no CURRENT' "$OFFLINE" store empty
    fails 5 'file: no LevelDB database: it is no directory' "$OFFLINE" store file
    fails 5 'nowhere: .*tamis init' "$OFFLINE" nowhere db
    printf 'MANIFEST-000099\n' >empty/CURRENT
    fails 5 'what its CURRENT names is not there' "$OFFLINE" store empty
    fails 2 'STORE and a DATABASE' "$OFFLINE" store
    fails 2 'STORE and a DATABASE' "$OFFLINE" store db more
    fails 2 'fpr' "$OFFLINE" --fpr 2 store db
    fails 2 'no such option' "$OFFLINE" --what store db
    ok "$OFFLINE" --help
    prints '^usage: tamis-leveldb'
}

@test "another comparator is refused" {
    "$DATABASE" other db
    "$TAMIS" init store
    fails 7 'its comparator is test.IgnoreCase' "$OFFLINE" store db
    [ "$(changed)" = '[]' ]
}

@test "damaged tables are refused, and nothing changes" {
    make_database 2000
    ok "$OFFLINE" store db
    before=$(changed)
    "$DATABASE" fill db 3000
    "$DATABASE" flush db
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
    "$DATABASE" fill db 4000
    "$DATABASE" flush db
    "$TAMIS" init store
    first=$(ls db/*.ldb | head -n 1)
    last=$(ls db/*.ldb | tail -n 1)
    [ "$first" != "$last" ]
    # Of the same size, which is no matter for LevelDB: its footer is found from the end.
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
    "$TAMIS" init store
    "$DATABASE" busy db >rounds 3>&- &
    writer=$!
    soon has_written
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
        run --separate-stderr "$OFFLINE" store db
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

@test "README's lines for LevelDB compile, by its command" {
    root=$(realpath "$BATS_TEST_DIRNAME/../..")
    block=$(awk '/^```/ { if (text ~ /tamis_leveldb.h/) printf "%s", text; text = ""; next }
        { text = text $0 "\n" }' "$root/README.md")
    printf '%s\n' "$block" | grep '#include' >app.c
    printf '%s\n' 'int main(int argc, char **argv) {' \
        'const char *path = argv[argc - 1]; char *error = NULL;' \
        'leveldb_options_t *options = leveldb_options_create();' \
        'leveldb_options_set_create_if_missing(options, 1);' >>app.c
    printf '%s\n' "$block" | grep -v '#include' >>app.c
    printf '%s\n' 'leveldb_options_destroy(options); return error != NULL; }' >>app.c
    command=$(sed -n '/^    cc -Itools\/leveldb/,/-pthread$/p' "$root/README.md" | tr -d '\\\n' |
        sed "s,build/,$(dirname "$OFFLINE")/,g; s,-I,-I$root/,g; s,app.c,$PWD/app.c -o $PWD/app,")
    [ "$(wc -l <app.c)" -gt 10 ]
    ok ${command/cc/${CC:-cc} ${SANITIZE:-}}
    ok ./app db
    [ -e db/CURRENT ]
}

@test "closed descriptors, a limit of file sizes, and whose message it is" {
    make_database 2000
    ok "$OFFLINE" store db
    before=$(changed)
    # What it says goes nowhere, not into a file that got the number.
    run -4 bash -c 'exec "$0" store db >&- 2>&-' "$OFFLINE"
    fails 5 "tamis-leveldb: nowhere: " bash -c 'exec "$0" store nowhere' "$OFFLINE"
    [ "$before" = "$(changed)" ]
    ok "$TAMIS" verify store
    rm -rf store && "$TAMIS" init store
    fails 4 "ulimit -f" bash -c 'ulimit -f 8; exec "$0" store db' "$OFFLINE"
    [ "$("$OFFLINE" -V)" = "$("$OFFLINE" --version)" ]
    ok "$OFFLINE" -h
}
