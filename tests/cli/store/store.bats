# A store from the command line: init, build, attach, drop, ls, stat.
load ../common

@test "init, build, ls, stat" {
    make_store
    lists 2
    [[ ${lines[0]} =~ ^sealed.*\ 3\ .*\ one$ ]]
    [[ ${lines[1]} =~ ^sealed.*\ 2\ .*\ two$ ]]
    ok tamis ls store two
    [ "${#lines[@]}" -eq 1 ]
    tells 'segments +2: 2 sealed, 0 growing, 0 without' tamis stat store
    prints 'keys +5'
    tells 'segment +one' tamis stat store one
    prints 'error +[0-9.e-]+% expected, target 1%'
    tells '"segment": "one"' tamis ls store --json
    prints '"first_key": "a"'
    prints '"last_key": "d"'
    tells '"keys": 5,' tamis stat store --json
    tells '"stages": ' tamis stat store one two --json
}

@test "more filters than a process maps" {
    make_store
    echo 1 >limit
    limited() {
        # In a chroot / is no mount that could be made private, but /proc is one.
        as_root unshare -m --propagation unchanged sh -c 'mount --make-private /proc &&
            mount --bind limit /proc/sys/vm/max_map_count && exec "$@"' sh "$TAMIS" "$@"
    }
    tells ' 1 more than a process maps' limited stat store
    tells '"unmapped": 1,' limited stat store --json
    gives $'c\tone\tHIT\nc\ttwo\tHIT' limited probe store c
    gives $'x\t-\tABSENT' limited probe store x
    ok limited verify store
}

@test "an empty store proves nothing" {
    ok tamis init store
    gives $'k\t-\tUNKNOWN_SEGMENT' tamis probe store k
    ok tamis probe store k -q
    gives '' tamis ls store
    ok tamis verify store
    tells 'segments +0' tamis stat store
}

@test "init over a store, over a full directory, over a file, below nothing" {
    make_store
    fails 2 "^tamis: store: a store is here already" tamis init store
    lists 2
    mkdir full
    touch full/file
    fails 2 "^tamis: full: " tamis init full
    [ "$(ls full)" = file ]
    touch file
    fails 2 "^tamis: file: " tamis init file
    fails 4 "^tamis: none/store: .*No such" tamis init none/store
    mkdir empty
    ok tamis init empty
}

@test "a store that is missing, is not one, is a file" {
    mkdir dir
    touch file
    for c in "build S s /dev/null" "grow S s /dev/null" "seal S s" "drop S s" "probe S k" \
        "probe S k -q" "ls S" "stat S" "verify S" "attach S s f"; do
        fails 5 "^tamis: none: .*: .*tamis init" tamis ${c/S/none}
        fails 5 "^tamis: dir: .*: .*tamis init" tamis ${c/S/dir}
        fails 3 "^tamis: file: not a directory" tamis ${c/S/file}
    done
    [ -z "$(ls dir)" ]
}

@test "a segment that exists, one that does not" {
    make_store
    fails 2 "segment 'one' exists already: --replaces 'one'" tamis build store one /dev/null
    fails 2 "exists already" tamis build store one --bare
    fails 5 "^tamis: store: no segment 'none': .*tamis ls" tamis verify store none --against /dev/null
    holds 2
}

@test "--replaces: of another name, of the same name, of several" {
    make_store
    echo x >k
    ok tamis build store one k --replaces one
    tells $'^a\t-\tABSENT\nx\tone\tHIT$' tamis probe store a x
    ok tamis build store three k --replaces one --replaces two
    # Nothing changes if the new one cannot be built.
    fails 4 "" tamis build store three nofile --replaces three
    tells 'three$' tamis ls store
    [ "${#lines[@]}" -eq 1 ]
    [ "$(ls store/filters | wc -l)" -eq 1 ]
}

@test "--each: names, --strip, threads, all or nothing" {
    ok tamis init store
    mkdir d
    for i in $(seq 50); do seq $i $((i + 10)) >d/$i.list; done
    ok tamis build store --each --strip .list -j4 d/*.list
    lists 50
    tells "checked 550 keys in 50 segments: 0 lost" tamis verify store --against-each --strip .list d/*.list
    ok tamis build store --each d/1.list d/2.list
    ok tamis ls store 1.list 2.list
    fails 4 "d/none: " tamis build store --each -j3 d/3.list d/none d/4.list
    fails 2 "exists already" tamis build store --each -j2 --strip .list d/3.list d/4.list
    fails 2 "d/5.list and d/../d/5.list are both for segment '5.list': rename one" \
        tamis build store --each d/5.list d/6.list none d/../d/5.list
    mkdir e
    echo x >e/1.list
    fails 2 "d/1.list and e/1.list are both for segment '1'" \
        tamis build store --each --strip .list d/1.list e/1.list
    fails 2 "'-' has none" tamis build store --each -
    fails 2 "1..255" tamis build store --each --strip 7.list d/7.list
    holds 52
}

@test "--bare: always a candidate" {
    make_store
    ok tamis build store zero --bare --rank 7
    tells $'^a\tone\tHIT\na\tzero\tNO_FILTER\nnope\tzero\tNO_FILTER$' tamis probe store a nope
    tells $'zero\tbare' tamis verify store
    tells "without a filter" tamis stat store zero
    ok tamis probe store nope --quiet
}

@test "--rank orders the segments" {
    ok tamis init store
    for r in 3 1 2; do ok tamis build store "s$r" /dev/null --empty --rank $r; done
    ok tamis ls store
    [[ ${lines[0]} =~ s1$ && ${lines[1]} =~ s2$ && ${lines[2]} =~ s3$ ]]
}

@test "drop: all or none" {
    make_store
    fails 5 "no segment 'none'" tamis drop store one none
    lists 2
    ok tamis drop store one two
    gives '' tamis ls store
    [ -z "$(ls store/filters)" ]
}

# keeps COMMAND...: it is done, but cannot remove the old file, and says so in one line.
keeps() {
    ASAN_OPTIONS=detect_leaks=0 fails 0 \
        "store/filters/[0-9a-f]+.tamis: removing a dropped file: Input/output error: the edit is done$" \
        strace -f -o /dev/null -e trace=unlinkat -e inject=unlinkat:error=EIO tamis "$@"
}

@test "an old file that cannot be removed: it is told, and the next edit does it" {
    make_store
    echo x >k
    keeps drop store one -q
    [ "$(ls store/filters | wc -l)" -eq 2 ]
    keeps build store two k --replaces two -q
    tells $'^a\t-\tABSENT\nx\ttwo\tHIT$' tamis probe store a x
    fails 0 "files of no segment removed: 2;" tamis build store three k -q
    [ "$(ls store/filters | wc -l)" -eq 2 ]
    # Not where something else is wrong: that is the line to read.
    ASAN_OPTIONS=detect_leaks=0 fails 4 "^tamis: standard output: .*: the work is done, only its report is lost$" \
        bash -c 'strace -f -o /dev/null -e trace=unlinkat -e inject=unlinkat:error=EIO \
            tamis drop store three --json >/dev/full'
}

@test "attach a filter that was built for the store" {
    make_store
    printf 'e\nf\n' >k
    ok tamis file build f.tamis k --store store --segment three
    ok tamis attach store three f.tamis
    tells $'^e\tthree\tHIT\nnope\t-\tABSENT$' tamis probe store e nope
    rm f.tamis
    tells " 0 lost" tamis verify store three --against k
}

@test "attach: another domain, name, a broken file, an existing segment" {
    make_store
    make_file
    fails 3 "^tamis: f.tamis: built with another seed: .*domain: 'tamis file build FILE --store" tamis attach store three f.tamis
    rm f.tamis
    make_file --store store
    fails 3 "f.tamis: built for another segment" tamis attach store other f.tamis
    fails 2 "'one' exists already: --replaces 'one' replaces it$" tamis attach store one f.tamis
    cp f.tamis g.tamis
    flip g.tamis 5000
    fails 3 "g.tamis: .*offset 4096" tamis attach store s g.tamis
    fails 4 "none: " tamis attach store s none
    fails 3 "f.tamis: .* not a store: .* 'tamis file probe' and its like take one file$" tamis probe f.tamis e
    mkdir d
    fails 3 "d: a directory, not a filter" tamis attach store s d
    echo text >text
    fails 3 "text: " tamis attach store s text
    holds 2
    ok tamis attach store s f.tamis
    fails 2 "already" tamis attach store s f.tamis --replaces s
    rm f.tamis
    make_file --store store
    ok tamis attach store s f.tamis --replaces s
    lists 3
}

@test "a store at a path with odd bytes, a name with odd bytes" {
    ok tamis init $'st\tore'
    echo k | tamis build $'st\tore' $'n\n\\'
    gives $'k\tn\\x0a\\x5c\tHIT' tamis probe $'st\tore' k
    fails 5 '^tamis: no\\x09ne: ' tamis ls $'no\tne'
    ok tamis build $'st\tore' - --bare
    gives $'x\t\\x2d\tNO_FILTER' tamis probe $'st\tore' x
}

@test "stat counts filters whose file is lost" {
    make_store
    echo g | tamis grow store g
    ok tamis stat store
    [[ ! $output =~ lost ]]
    rm "$(filter_of one)"
    truncate -s 100 "$(filter_of g)"
    fails 3 "^tamis: store: 0 filters unreadable, 2 lost: 'tamis verify' says which$" tamis stat store
    prints ' 0 unreadable, 2 lost'
    prints 'catalog    '
    fails 3 "2 lost: 'tamis verify' says which$" tamis stat store --json
    [ "$(jq .lost <<<"$output")" = 2 ]
    # The segment that is named is whole.
    ok tamis stat store two
    fails 3 "No such file or directory: build the segment anew from its keys$" tamis stat store one
}

@test "stat of filters that do not open: the status of verify" {
    make_store
    flip "$(filter_of two)" 130
    fails 3 "1 filter unreadable" tamis stat store
    prints ' 0 over their target error, 1 unreadable, 0 lost'
    fails 3 "1 filter unreadable" tamis stat store --json
    [ "$(jq .unreadable <<<"$output")" = 1 ]
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    chmod -R a+rwX . store
    chmod 600 "$(filter_of one)"
    fails 3 "2 filters unreadable, 0 lost" unprivileged tamis stat store
    flip "$(filter_of two)" 130
    fails 4 "1 filter unreadable, 0 lost" unprivileged tamis stat store
}

# A program would have to close the store; a user has to end the command.
@test "a store that is replaced while it is open: who has it open has to end" {
    end="end every process that has it open, then look what 'tamis ls' says$"
    tamis init store
    hold_writer
    mv store/catalog.lmdb-lock away
    for c in "ls store" "probe store a" "build store one /dev/null"; do
        fails 4 "^tamis: .*catalog.lmdb-lock: removed or replaced while a process has the store open: $end" \
            tamis $c
    done
    end_writer
    [ "$status" -eq 4 ]
    [[ $(cat .err) =~ ^tamis:\ .*lock:\ moved,\ removed\ or\ replaced\ while\ this\ process\ has\ the\ store\ open:\ $end ]] ||
        explain "$(cat .err)"
    ok tamis ls store
}

@test "a store that cannot be read once the work is done: the report is lost, and no more" {
    seq 9 >keys
    tamis init store
    ASAN_OPTIONS=detect_leaks=0 strace -f -o trace -e trace=pread64 tamis build store a keys
    for ((n = $(wc -l <trace), status = 0; status == 0; n--)); do
        ASAN_OPTIONS=detect_leaks=0 capture strace -f -o /dev/null -e trace=pread64 -e inject=pread64:error=EIO:when=$n+ \
            tamis build store "b$n" keys
    done
    [ "$status" -eq 4 ] && [[ $stderr =~ "the work is done, only its report is lost"$ ]] || explain "$n"
    ok tamis ls store "b$((n + 1))"
}
