# A store from the command line: init, build, attach, drop, ls, stat.
load ../common

@test "init, build, ls, stat" {
    make_store
    ok "$TAMIS" ls store
    [ "${#lines[@]}" -eq 2 ]
    [[ ${lines[0]} =~ ^sealed.*\ 3\ .*\ one$ ]]
    [[ ${lines[1]} =~ ^sealed.*\ 2\ .*\ two$ ]]
    ok "$TAMIS" ls store two
    [ "${#lines[@]}" -eq 1 ]
    ok "$TAMIS" stat store
    prints 'segments +2: 2 sealed, 0 growing, 0 without'
    prints 'keys +5'
    ok "$TAMIS" stat store one
    prints 'segment +one'
    prints 'error +[0-9.e-]+% expected, target 1%'
    ok "$TAMIS" ls store --json
    prints '"segment": "one"'
    prints '"first_key": "a"'
    prints '"last_key": "d"'
    ok "$TAMIS" stat store --json
    prints '"keys": 5,'
    ok "$TAMIS" stat store one two --json
    prints '"stages": '
}

@test "an empty store" {
    ok "$TAMIS" init store
    ok "$TAMIS" ls store
    [ -z "$output" ]
    ok "$TAMIS" verify store
    ok "$TAMIS" stat store
    prints 'segments +0'
}

@test "init over a store, over a full directory, over a file, below nothing" {
    make_store
    fails 2 "^tamis: store: a store is here already" "$TAMIS" init store
    ok "$TAMIS" ls store
    [ "${#lines[@]}" -eq 2 ]
    mkdir full
    touch full/file
    fails 2 "^tamis: full: " "$TAMIS" init full
    [ "$(ls full)" = file ]
    touch file
    fails 2 "^tamis: file: " "$TAMIS" init file
    fails 4 "^tamis: none/store: .*No such" "$TAMIS" init none/store
    mkdir empty
    ok "$TAMIS" init empty
}

@test "a store that is missing, is not one, is a file" {
    mkdir dir
    touch file
    for c in "build S s /dev/null" "grow S s /dev/null" "seal S s" "drop S s" "probe S k" \
        "probe S k -q" "ls S" "stat S" "verify S" "attach S s f"; do
        fails 5 "^tamis: none: .*: .*tamis init" "$TAMIS" ${c/S/none}
        fails 5 "^tamis: dir: .*: .*tamis init" "$TAMIS" ${c/S/dir}
        fails 3 "^tamis: file: not a directory" "$TAMIS" ${c/S/file}
    done
    [ -z "$(ls dir)" ]
}

@test "a catalog that is not one" {
    make_store
    head -c 65536 /dev/urandom >store/catalog.lmdb
    fails 3 "catalog.lmdb: " "$TAMIS" ls store
    fails 3 "catalog.lmdb: " "$TAMIS" probe store nope --quiet
    : >store/catalog.lmdb
    fails 3 "catalog.lmdb: " "$TAMIS" probe store nope --quiet
}

@test "a segment that exists, one that does not" {
    make_store
    fails 2 "segment 'one' exists already: --replaces 'one'" \
        "$TAMIS" build store one /dev/null
    fails 2 "exists already" "$TAMIS" build store one --bare
    for c in "seal store none" "drop store none" "ls store none" "stat store none" \
        "verify store none" "verify store none --against /dev/null" \
        "build store new /dev/null --replaces none"; do
        fails 5 "^tamis: store: no segment 'none': .*tamis ls" "$TAMIS" $c
    done
    ok "$TAMIS" ls store
    [ "${#lines[@]}" -eq 2 ]
    [ "$(ls store/filters | wc -l)" -eq 2 ]
}

@test "--replaces: of another name, of the same name, of several" {
    make_store
    echo x >k
    ok "$TAMIS" build store one k --replaces one
    ok "$TAMIS" probe store a x
    prints $'^a\t-\tABSENT\nx\tone\tHIT$'
    ok "$TAMIS" build store three k --replaces one --replaces two
    ok "$TAMIS" ls store
    [[ $output =~ three$ ]]
    [ "${#lines[@]}" -eq 1 ]
    [ "$(ls store/filters | wc -l)" -eq 1 ]
}

@test "--each: names, --strip, threads, all or nothing" {
    ok "$TAMIS" init store
    mkdir d
    for i in $(seq 50); do seq $i $((i + 10)) >d/$i.list; done
    ok "$TAMIS" build store --each --strip .list -j4 d/*.list
    ok "$TAMIS" ls store
    [ "${#lines[@]}" -eq 50 ]
    ok "$TAMIS" verify store --against-each --strip .list d/*.list
    prints "checked 550 keys in 50 segments: 0 lost"
    ok "$TAMIS" build store --each d/1.list d/2.list
    ok "$TAMIS" ls store 1.list 2.list
    fails 4 "d/none: " "$TAMIS" build store --each -j3 d/3.list d/none d/4.list
    fails 2 "exists already" "$TAMIS" build store --each -j2 --strip .list d/3.list d/4.list
    fails 2 "d/5.list and d/../d/5.list are both for segment '5.list': rename one" \
        "$TAMIS" build store --each d/5.list d/6.list none d/../d/5.list
    mkdir e
    echo x >e/1.list
    fails 2 "d/1.list and e/1.list are both for segment '1'" \
        "$TAMIS" build store --each --strip .list d/1.list e/1.list
    fails 2 "'-' has none" "$TAMIS" build store --each -
    fails 2 "1..255" "$TAMIS" build store --each --strip 7.list d/7.list
    ok "$TAMIS" ls store
    [ "${#lines[@]}" -eq 52 ]
    [ "$(ls store/filters | wc -l)" -eq 52 ]
}

@test "--bare: always a candidate" {
    make_store
    ok "$TAMIS" build store zero --bare --rank 7
    ok "$TAMIS" probe store a nope
    prints $'^a\tone\tHIT\na\tzero\tNO_FILTER\nnope\tzero\tNO_FILTER$'
    ok "$TAMIS" verify store
    prints $'zero\tbare'
    ok "$TAMIS" stat store zero
    prints "without a filter"
    ok "$TAMIS" probe store nope --quiet
}

@test "--rank orders the segments" {
    ok "$TAMIS" init store
    for r in 3 1 2; do ok "$TAMIS" build store "s$r" /dev/null --empty --rank $r; done
    ok "$TAMIS" ls store
    [[ ${lines[0]} =~ s1$ && ${lines[1]} =~ s2$ && ${lines[2]} =~ s3$ ]]
}

@test "drop: all or none" {
    make_store
    fails 5 "no segment 'none'" "$TAMIS" drop store one none
    ok "$TAMIS" ls store
    [ "${#lines[@]}" -eq 2 ]
    ok "$TAMIS" drop store one two
    ok "$TAMIS" ls store
    [ -z "$output" ]
    [ -z "$(ls store/filters)" ]
}

# keeps COMMAND...: it is done, but cannot remove the old file, and says so in one line.
keeps() {
    ASAN_OPTIONS=detect_leaks=0 fails 0 \
        "store/filters/[0-9a-f]+.tamis: removing a dropped file: Input/output error: the edit is done, and the next one tries this again$" \
        strace -f -o /dev/null -e trace=unlinkat -e inject=unlinkat:error=EIO "$TAMIS" "$@"
}

@test "an old file that cannot be removed: it is told, and the next edit does it" {
    make_store
    echo x >k
    keeps drop store one -q
    [ "$(ls store/filters | wc -l)" -eq 2 ]
    keeps build store two k --replaces two -q
    ok "$TAMIS" probe store a x
    prints $'^a\t-\tABSENT\nx\ttwo\tHIT$'
    ok "$TAMIS" build store three k
    [ "$(ls store/filters | wc -l)" -eq 2 ]
    # Not where something else is wrong: that is the line to read.
    ASAN_OPTIONS=detect_leaks=0 fails 4 "^tamis: standard output: .*: the work is done, only its report is lost$" \
        bash -c 'strace -f -o /dev/null -e trace=unlinkat -e inject=unlinkat:error=EIO \
            "$TAMIS" drop store three --json >/dev/full'
}

@test "attach a filter that was built for the store" {
    make_store
    printf 'e\nf\n' >k
    ok "$TAMIS" file build f.tamis k --store store --segment three
    ok "$TAMIS" attach store three f.tamis
    ok "$TAMIS" probe store e nope
    prints $'^e\tthree\tHIT\nnope\t-\tABSENT$'
    rm f.tamis
    ok "$TAMIS" verify store three --against k
    prints " 0 lost"
}

@test "attach: another domain, name, a broken file, an existing segment" {
    make_store
    make_file
    fails 3 "^tamis: f.tamis: built with another seed: .*domain" \
        "$TAMIS" attach store three f.tamis
    rm f.tamis
    make_file --store store
    fails 3 "f.tamis: built for another segment" "$TAMIS" attach store other f.tamis
    fails 2 "exists already: --replaces" "$TAMIS" attach store one f.tamis
    cp f.tamis g.tamis
    flip g.tamis 5000
    fails 3 "g.tamis: .*offset 4096" "$TAMIS" attach store s g.tamis
    fails 4 "none: " "$TAMIS" attach store s none
    mkdir d
    fails 3 "d: a directory, not a filter" "$TAMIS" attach store s d
    echo text >text
    fails 3 "text: " "$TAMIS" attach store s text
    ok "$TAMIS" ls store
    [ "${#lines[@]}" -eq 2 ]
    [ "$(ls store/filters | wc -l)" -eq 2 ]
    ok "$TAMIS" attach store s f.tamis
    fails 2 "already" "$TAMIS" attach store s f.tamis --replaces s
    rm f.tamis
    make_file --store store
    ok "$TAMIS" attach store s f.tamis --replaces s
    ok "$TAMIS" ls store
    [ "${#lines[@]}" -eq 3 ]
}

@test "a store at a path with odd bytes, a name with odd bytes" {
    ok "$TAMIS" init $'st\tore'
    echo k | "$TAMIS" build $'st\tore' $'n\n\\'
    ok "$TAMIS" probe $'st\tore' k
    [ "$output" = $'k\tn\\x0a\\x5c\tHIT' ]
    fails 5 '^tamis: no\\x09ne: ' "$TAMIS" ls $'no\tne'
    ok "$TAMIS" build $'st\tore' - --bare
    ok "$TAMIS" probe $'st\tore' x
    [ "$output" = $'x\t\\x2d\tNO_FILTER' ]
}

@test "a segment of no keys is never MAYBE" {
    ok "$TAMIS" init store
    ok "$TAMIS" build store built /dev/null --empty
    ok "$TAMIS" grow store grown /dev/null --empty
    seq 1000 >absent
    ok "$TAMIS" probe store --keys absent --count
    prints "maybe_pairs +0"
    prints "absent_keys +1000"
}

@test "a build that is killed leaves nothing behind once the next one is done" {
    ok "$TAMIS" init store
    mkdir d
    for i in $(seq 300); do echo $i >d/$i; done
    for delay in 0.01 0.03 0.05; do
        run timeout -s KILL $delay "$TAMIS" build store --each -j2 d/*
        # Killed, or faster than that.
        [ "$status" -eq 137 ] || [ "$status" -eq 0 ] || [ "$status" -eq 2 ]
    done
    ok "$TAMIS" build store last /dev/null --empty
    ok "$TAMIS" verify store
    n=$("$TAMIS" ls store | wc -l)
    [ "$n" -eq 1 ] || [ "$n" -eq 301 ]
    [ "$(ls -A store/filters | wc -l)" -eq "$n" ]
}

@test "stat counts filters whose file is lost" {
    make_store
    echo g | "$TAMIS" grow store g
    ok "$TAMIS" stat store
    [[ ! $output =~ lost ]]
    rm "$(filter_of one)"
    truncate -s 100 "$(filter_of g)"
    fails 3 "^tamis: store: 0 filters unreadable, 2 lost: 'tamis verify' says which$" "$TAMIS" stat store
    prints ' 0 unreadable, 2 lost'
    prints 'catalog    '
    fails 3 "2 lost: 'tamis verify' says which$" "$TAMIS" stat store --json
    [ "$(jq .lost <<<"$output")" = 2 ]
    # The segment that is named is whole.
    ok "$TAMIS" stat store two
    fails 3 "No such file or directory: build the segment anew from its keys$" "$TAMIS" stat store one
}

@test "stat of a filter in another one's place: the status of verify" {
    make_store
    two=$(filter_of two)
    cp "$(filter_of one)" "$two"
    fails 3 "1 filter unreadable, 0 lost" "$TAMIS" stat store
    fails 3 "" "$TAMIS" verify store
}

@test "stat of filters that do not open: the status of verify" {
    make_store
    file=$(filter_of one)
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    chmod -R a+rwX . store
    chmod 600 "$file"
    fails 4 "1 filter unreadable, 0 lost" unprivileged "$TAMIS" stat store
    flip "$(filter_of two)" 130
    fails 3 "2 filters unreadable, 0 lost" unprivileged "$TAMIS" stat store
    fails 3 "1 filter unreadable" "$TAMIS" stat store --json
    [ "$(jq .unreadable <<<"$output")" = 1 ]
}

# A program would have to close the store; a user has to end the command.
@test "a store that is replaced while it is open: who has it open has to end" {
    end="end every process that has the store open, then run it again$"
    "$TAMIS" init store
    mkfifo input
    "$TAMIS" grow store g - <input >/dev/null 2>err 3>&- &
    pid=$!
    exec 7>input
    echo held >&7
    soon is_held
    mv store/catalog.lmdb-lock away
    for c in "ls store" "probe store a" "build store one /dev/null"; do
        fails 4 "^tamis: .*catalog.lmdb-lock: removed or replaced while a process has the store open: $end" \
            "$TAMIS" $c
    done
    exec 7>&-
    status=0
    wait $pid || status=$?
    [ "$status" -eq 4 ]
    [[ $(cat err) =~ ^tamis:\ .*lock:\ moved,\ removed\ or\ replaced\ while\ this\ process\ has\ the\ store\ open:\ $end ]] ||
        { cat err; false; }
    ok "$TAMIS" ls store
}

is_held() {
    [ "$("$TAMIS" probe store held 2>/dev/null)" = $'held\tg\tHIT' ]
}
