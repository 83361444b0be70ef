# Advice works: who does what a line says gets on.
load ../common

# mended FILE: what ls and build say of a store whose catalog is now that leads to
# `tamis repair`, and that makes the store whole.
mended() {
    local at=$1 what=$2
    fails "$at" "$what.*: 'tamis repair STORE' makes its catalog anew" tamis ls store
    fails "$at" "$what.*: 'tamis repair STORE' makes its" tamis build store x /dev/null
    fails 3 "damage was found, and dealt with" tamis repair store
    ok tamis repair store --confirm
    lists 2
}

@test "a catalog that cannot be used: repair it" {
    make_store
    cp store/catalog.lmdb good
    : >store/catalog.lmdb
    mended 3 "the catalog is empty .offset 0"
    head -c 100 /dev/urandom >store/catalog.lmdb
    mended 3 "too short for a catalog .offset 100"
    head -c 4095 good >store/catalog.lmdb
    mended 3 "too short for a catalog .offset 4095"
    head -c 65536 /dev/urandom >store/catalog.lmdb
    mended 3 "not an LMDB file"
    cp good store/catalog.lmdb
    flip store/catalog.lmdb 20
    said="LMDB data version 5, not 1: .*; if none did, move catalog.lmdb away: then 'tamis repair STORE' makes another$"
    for c in ls verify repair; do fails 3 "$said" tamis $c store; done
    mv store/catalog.lmdb away
    mended 5 "catalog.lmdb is missing"
}

@test "a pack or tombstones that cannot be used: what the lines say works" {
    build_of a=9 b=9
    tamis pack store -q
    cp -r store kept
    goes="or move them away: then 'tamis repair STORE --confirm --force' takes its segments off the list, to be built anew$"
    for byte in 8 9 100 2100 8200 12300; do
        flip store/filters/*.tamis $byte
        fails 3 "whether it has segment 'c': .* $goes" tamis build store c a
        fails 3 "may have it: .* $goes" tamis probe store 1 --segment a
        fails 3 "$goes" tamis verify store
        [[ ${#lines[@]} -eq 1 && $output == *filters/*.tamis:* ]] || explain "one line"
        fails 3 ": 2 segments left out, without a readable name: 'tamis verify' says" tamis ls store --names
        [ $byte -gt 9 ] || fails 3 "this pack is of a newer tamis: filters/.*$goes" tamis repair store --confirm
        [ $byte -gt 9 ] || mv store/filters/*.tamis away
        fails 3 "not confirmed: 1 lost pack is listed no more" tamis repair store --confirm --force
        exits 0 tamis build store --each a b
        tells $'\n-\tunconfirmed\tsegments may be missing' tamis verify store
        ok tamis repair store --confirm
        ok tamis verify store
        [[ $output != *unconfirmed* ]] || explain "confirmed"
        rm -r store
        cp -r kept store
    done
    anew="'tamis repair STORE --confirm' makes another"
    flip store/filters/*.dead 8
    for c in "drop store a" "verify store" "stat store a" "fold store c a --by 1"; do fails 3 "$anew" tamis $c; done
    fails 3 "$anew, once it is moved away$" tamis repair store --confirm
    printf x >"$(echo store/filters/*.dead)"
    fails 3 "$anew$" tamis verify store
    fails 3 "damage was found, and dealt with" tamis repair store --confirm
    ok tamis drop store a
    fails 3 "tombstones of a pack: name the .tamis file beside them$" tamis file show store/filters/*.dead
}

@test "a store without its filters/: put it back, or repair it" {
    make_store
    mv store/filters kept
    fails 3 "filters/ is missing: put it back, or 'tamis repair STORE' makes an empty one" tamis ls store
    mv kept store/filters
    ok tamis probe store a
    rm -r store/filters
    fails 3 "left as noted" tamis repair store
    tells FILE_LOST tamis probe store a
}

@test "a store with something else for its filters/: move that away" {
    make_store
    mv store/filters kept
    said="move away what is in its place, then put the directory filters/ back, or 'tamis repair STORE' makes an empty"
    for how in "touch" "ln -s nowhere" "ln -s ../kept"; do
        $how store/filters
        fails 3 "filters/ is no directory: $said" tamis ls store
        fails 4 "filters/: Not a directory: $said" tamis repair store
        fails 4 "filters/: Not a directory: $said" tamis repair store --dry-run
        mv store/filters away
        mv kept store/filters
        ok tamis verify store
        mv store/filters kept
        rm away
    done
    fails 3 "left as noted" tamis repair store
    ok tamis ls store
}

@test "a store with something else for its quarantine/: move that away" {
    make_store
    flip "$(filter_of one)" 5000
    said="quarantine/: Not a directory: move away what is in its place, then run it again$"
    for how in "touch" "ln -s nowhere" "ln -s ../kept"; do
        $how store/quarantine
        fails 4 "setting aside in $said" tamis repair store
        fails 4 "looking into $said" tamis repair store --confirm
        rm store/quarantine
    done
    fails 3 "dealt with" tamis repair store
}

@test "repair while an edit is under way: try again" {
    make_store
    fails 6 "is changing or repairing the store: try again when it is done$" \
        flock -s store/filters tamis repair store --wait 0
    ok flock -s store/filters tamis verify store
    prints 'not looked for: .* is changing or repairing the store$'
}

@test "a catalog whose trees make no sense: repair it" {
    make_store
    for page in 2 3 4 5 6 7; do poke store/catalog.lmdb $((page * 4096 + 10)) '\xff'; done
    mended 3 "makes no sense"
}

@test "a catalog that is damaged while a command has it open: repair it" {
    make_store
    mkfifo pipe
    for pages in "2 3 4 5 6 7" "0 1"; do # LMDB meets the first, we the second
        cp -r store broken
        tamis build broken x pipe 2>said 3>&- &
        pid=$!
        soon has_open $pid broken/filters
        for page in $pages; do poke broken/catalog.lmdb $((page * 4096 + 10)) '\x0b'; done
        # It may give up without a look, and nobody ever opens the pipe.
        until timeout 1 bash -c 'echo key >pipe' || ! kill -0 $pid 2>/dev/null; do :; done
        ! wait $pid || explain "the build fails"
        grep ": 'tamis repair STORE" said
        rm -r broken
    done
    grep "makes no sense: 'tamis repair STORE' makes its catalog anew$" said
}
has_open() {
    ls -l "/proc/$1/fd" | grep -q "$2"
}

@test "something else in the catalog's place: move it away, then repair" {
    make_store
    mv store/catalog.lmdb good
    for make in "ln -s ../good" mkfifo mkdir; do
        $make store/catalog.lmdb
        for c in "ls store" "repair store" "repair store -n"; do
            fails 3 "^tamis: store: catalog.lmdb is not a regular file: move it away, then 'tamis repair STORE' makes one$" \
                timeout 60 tamis $c
        done
        rm -d store/catalog.lmdb
    done
    mended 5 "catalog.lmdb is missing"
    rm store/catalog.lmdb-lock
    mkdir store/catalog.lmdb-lock
    for c in ls repair; do
        fails 3 "catalog.lmdb-lock is not a regular file: move it away$" tamis $c store
    done
}

@test "a catalog is lost, and the only filter is in quarantine" {
    tamis init store
    seq 9 | tamis build store a -q
    printf rot | dd of="$(echo store/filters/*)" bs=1 seek=5000 conv=notrunc status=none
    fails 3 "damage was found, and dealt with" tamis repair store
    rm store/catalog.lmdb*
    fails 5 "move a filter from quarantine/ to filters/, then 'tamis repair STORE'" tamis ls store
    mv store/quarantine/*.tamis store/filters
    fails 3 "dealt with" tamis repair store
    tells "5	a	NO_FILTER" tamis probe store 5
    # A tombstone file is no filter to make a catalog of.
    rm -r store/quarantine store/catalog.lmdb*
    : >store/filters/00000000000000000000000000000000.dead
    fails 5 "put both back from a backup" tamis ls store
}

@test "a first init that was cut short: init goes on" {
    mkdir -p store/filters
    fails 5 "cut short, or both were lost: put both back from a backup, or 'tamis init' makes a new store$" tamis ls store
    ok tamis init store
    : >store/catalog.lmdb # and there are no filters to make another of
    fails 3 "tamis repair STORE" tamis ls store
    fails 5 "'tamis init' in a new directory$" tamis repair store
}

@test "a growing filter that cannot be made is told with its store" {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    make_store
    chmod -R a+rwX . store
    chmod 755 store/filters
    for c in grow build; do
        fails 4 "^tamis: store/filters/[0-9a-f]*.tamis: cannot create: Permission denied" \
            setpriv --reuid=65534 --regid=65534 --clear-groups \
            tamis $c store g --empty /dev/null
    done
}

@test "a segment that is named twice is one" {
    make_store
    for c in ls verify; do
        ok tamis $c store two one two two one
        [ "${#lines[@]}" -eq 2 ]
        [[ ${lines[0]} =~ two ]]
    done
    ok tamis stat store one one
    [ "$(grep -c '^segment  ' <<<"$output")" -eq 1 ]
    fails 5 "no segment 'none'" tamis ls store one one none
}

@test "key lists: one key, and one that cannot be read" {
    make_store
    echo z >k
    fails 3 "1 key not in the filters of their segments" tamis verify store one --against k
    prints 'checked 1 key in 1 segment: 1 lost'
    fails 4 "none: " tamis verify store one --against none
    ! [[ $output =~ checked ]] || explain "nothing was checked"
    tamis file build f.tamis k
    fails 4 "none: " tamis file verify f.tamis --against none
    ! [[ $output =~ checked ]]
}

# U+202E, U+2066: what follows would be shown from right to left.
@test "names that turn the text around are escaped" {
    make_store
    turned=$'a\xe2\x80\xaegpj.exe\xe2\x81\xa6'
    safe='a\xe2\x80\xaegpj.exe\xe2\x81\xa6'
    echo k | tamis build store "$turned"
    echo k | tamis build store $'\xe2\x80\x93\xe2\x81\xaa' # U+2013, U+206A: plain
    for c in ls stat verify "probe k" "ls --json"; do
        set -- $c
        ok tamis $1 store ${2-}
        ! [[ $output == *$turned* ]] || explain "$c"
    done
    gives $'k\t'"$safe"$'\tHIT\nk\t\xe2\x80\x93\xe2\x81\xaa\tHIT' tamis probe store k
    fails 2 "exists already" tamis build store "$turned" /dev/null
    ! [[ $stderr == *$turned* ]]
}

@test "a limit of the process is told as that" {
    make_store
    seq 200000 >k
    fails 4 "File too large: raise the limit of file sizes .ulimit -f.$" \
        bash -c 'ulimit -f 50; tamis build store big k'
    fails 4 "d/f.tamis: .*File too large: raise the limit" bash -c 'mkdir d; ulimit -f 4; tamis file build d/f.tamis k'
    [ "$(ls -A d store/filters | wc -l)" -eq 5 ]
    ASAN_OPTIONS=detect_leaks=0 fails 4 "committing: Input/output error: see whether the disk is full or fails .*, or raise ulimit -f$" \
        strace -f -o /dev/null -e inject=pwrite64,pwritev:error=EIO tamis drop store one
    # With ASan no process starts within such a limit.
    grep -q __asan_init "$TAMIS" || fails 4 "Cannot allocate memory: raise the limit of memory .ulimit -v.$" \
        bash -c 'ulimit -v 60000; tamis build store big k'
    tamis ls store | wc -l | grep -qx 2
}

@test "a store's path with a newline stays on its line" {
    tamis init $'a\nb\e[31m'
    ok tamis stat $'a\nb\e[31m'
    [ "${lines[0]}" = 'store      a\x0ab\x1b[31m' ]
    tamis init 'a\b'
    fails 5 '^tamis: a.x5cb: no segment .x.x5c' tamis drop 'a\b' 'x\'
    tells "complete already, and empty: nothing" tamis repair 'a\b' --confirm
}

@test "ls --names" {
    make_store
    echo x | tamis build store $'ta\tb\\'
    gives $'one\nta\\x09b\\x5c\ntwo' tamis ls store --names
    tamis ls store --names -0 | od -An -c | tr -d ' \n' | grep -Fqx 'one\0ta\tb\\0two\0'
    fails 2 "-0 is for --names" tamis ls store -0
    fails 2 "exclude each other" tamis ls store --names --json
    # Names are the catalog's: no filter is opened for them.
    rm store/filters/*
    gives two tamis ls store --names two
}

@test "a segment whose record is damaged is not one that does not exist" {
    make_store
    at=$(grep -abo 'one' store/catalog.lmdb | tail -1 | cut -d: -f1)
    flip store/catalog.lmdb $((at + 40))
    fails 3 "record of segment 'one': .*: 'tamis repair' mends it" tamis ls store one
}
