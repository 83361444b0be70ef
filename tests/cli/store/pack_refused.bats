# Packing that cannot be, or ends half-way: one line says why, and the store is as before.
load ../common

teardown() {
    ! mountpoint -q small || as_root umount small
}

# Segments s1 .. s4 in a store, as loose files.
four() {
    for i in 1 2 3 4; do seq $((i * 1000)) $((i * 1000 + 300)) >s$i.keys; done
    "$TAMIS" build "$1" --each s*.keys --strip .keys -q
}

# Everything that a store has: names, sizes and contents, but for the lock.
contents() {
    (cd "$1" && find . -type f ! -name '*-lock' -exec sha256sum {} + | sort)
}

# unchanged STORE CODE WORDS COMMAND...: it fails like this, and leaves no trace.
unchanged() {
    local store=$1 code=$2 words=$3
    shift 3
    contents "$store" >before
    fails "$code" "$words" "$@"
    contents "$store" | diff before - || explain "$store as before"
    "$TAMIS" verify "$store" >verified || explain "a store without damage"
}

@test "nothing to pack is no failure" {
    "$TAMIS" init store
    for how in "" --repack --auto --dry-run; do
        ok "$TAMIS" pack store $how
        [ "$stderr" = "nothing to pack" ] || explain "nothing to pack"
    done
    ok "$TAMIS" unpack store
    [ "$stderr" = "nothing to unpack" ] || explain "nothing to unpack"
}

@test "a refusal is one line" {
    "$TAMIS" init store
    "$TAMIS" build store bare --bare
    fails 2 "of the segments named, 1 bare" "$TAMIS" pack store bare
    seq 9 | "$TAMIS" build store a -q
    "$TAMIS" pack store -q
    fails 2 "1 packed before" "$TAMIS" pack store a
    # What has its own column is unpacked, and what is lost is told.
    seq 5 | "$TAMIS" build store b -q
    rm store/filters/*.dead
    fails 3 "the pack of 1 segment is missing or damaged: put the pack's files back, or build it anew" "$TAMIS" pack store -q
    run --separate-stderr "$TAMIS" unpack store a b
    [ "$status" -eq 3 ]
    [[ ${stderr_lines[0]} == "unpacked 1 segment: "* ]]
    [[ ${stderr_lines[1]} == *"the pack of 1 segment is missing or damaged"* ]]
    fails 2 "segment 'b' is in no pack" "$TAMIS" unpack store a b
}

@test "another kind of file in the place of a pack: the rest is packed" {
    for how in "" --auto --repack; do
        for what in mkdir mkfifo; do
            rm -rf store
            "$TAMIS" init store
            four store
            "$TAMIS" pack store s1 s2 -q
            pack=$(ls store/filters/*.dead)
            rm "${pack%.dead}.tamis"
            $what "${pack%.dead}.tamis"
            run --separate-stderr "$TAMIS" pack store $how
            [ "$status" -eq 3 ] || explain "$what is damage"
            [[ ${stderr_lines[0]} == "packed 2 segments, "* ]] || explain "s3 and s4"
            [[ ${stderr_lines[1]} == *"the packs of 2 segments are missing or damaged"* ]]
            ok "$TAMIS" probe store 3003 --segment s3
            prints "3003	s3	HIT"
        done
    done
}

@test "packs in each other's places" {
    "$TAMIS" init store
    for s in a b; do
        seq 100 | "$TAMIS" build store $s -q
        "$TAMIS" pack store $s -q
    done
    mv "$(filter_of a)" moved
    mv "$(filter_of b)" "$(filter_of a)"
    mv moved "$(filter_of b)"
    fails 3 "this pack: belongs to something else .*: put its own file in its place, or build" \
        "$TAMIS" verify store
    fails 3 "put its own file in its place" "$TAMIS" stat store a
    mv "$(filter_of a)" moved
    mv "$(filter_of b)" "$(filter_of a)"
    mv moved "$(filter_of b)"
    ok "$TAMIS" verify store
}

@test "several stages, another domain" {
    "$TAMIS" init store --n0 1k
    four store
    seq 20000 | "$TAMIS" grow store g -q
    "$TAMIS" seal store g 2>sealed
    unchanged store 2 "of the segments named, 1 of several stages" "$TAMIS" pack store g -q
    ok "$TAMIS" pack store
    [[ $stderr == *"; left: 1 of several stages" ]] || explain "it is counted"
    "$TAMIS" init other
    f=$("$TAMIS" ls store g --json | jq -r '.[0].file')
    unchanged other 3 "built with another seed" "$TAMIS" attach other g "store/$f"
}

@test "no room before, and for each that needs some" {
    mkdir small
    as_root mount -t tmpfs -o size=3m,mode=1777 tmpfs small
    "$TAMIS" init small/store
    four small/store
    "$TAMIS" pack small/store -q
    seq 5000000 7000000 >big.keys
    unchanged small/store 4 "the pack needs [0-9]+ bytes, and the disk has [0-9]+ left: free some space" \
        "$TAMIS" build small/store --each big.keys s1.keys --strip .keys --pack --replaces s1
    cat /dev/zero >small/ballast 2>/dev/null || :
    unchanged small/store 4 "the pack needs [0-9]+ bytes" "$TAMIS" pack small/store --repack
    unchanged small/store 4 "unpacking needs [0-9]+ bytes, and the disk has [0-9]+ left: free some space" "$TAMIS" unpack small/store
    rm small/ballast
    ok "$TAMIS" unpack small/store
    [ "$stderr" = "unpacked 4 segments: 32.0 KiB" ] || explain "how much it is"
    ok "$TAMIS" verify small/store --against-each s*.keys --strip .keys
    prints "in 4 segments: 0 lost"
}

# LMDB's own word for it is an I/O error. How much is left decides where it happens.
@test "a disk that is full when the catalog is committed" {
    mkdir small
    as_root mount -t tmpfs -o size=3m,mode=1777 tmpfs small
    "$TAMIS" init small/store
    four small/store
    found=
    for left in $(seq 0 4 160); do
        rm -f small/ballast
        free=$(($(stat -f -c '%a * %S / 1024' small)))
        dd if=/dev/zero of=small/ballast bs=1k count=$((free - left)) status=none
        run --separate-stderr "$TAMIS" pack small/store -q
        [ "$status" -ne 0 ] || break
        [ "$status" -eq 4 ] || explain "no room"
        [[ $stderr != *"Input/output"* ]] || explain "the disk is full"
        [[ $stderr == *"free some space" ]] || explain "what would do"
        [[ $stderr != *"committing: No space left"* ]] || found=1
    done
    [ -n "$found" ] || explain "one that fails in the commit"
    rm small/ballast
    "$TAMIS" verify small/store >verified || explain "a store without damage"
}

# The limit is hit while the rows are written.
@test "no room in the middle" {
    "$TAMIS" init store
    four store
    (
        ulimit -f 8
        unchanged store 4 "cannot write: File too large: raise the limit" "$TAMIS" pack store
    )
    "$TAMIS" pack store -q
    (
        ulimit -f 8
        unchanged store 4 "cannot write: File too large" "$TAMIS" pack store --repack
        seq 300 >new.keys
        unchanged store 4 "File too large" "$TAMIS" build store --each new.keys --strip .keys --pack
    )
}

@test "a read-only file system" {
    mkdir small
    as_root mount -t tmpfs -o size=3m,mode=1777 tmpfs small
    "$TAMIS" init small/store
    four small/store
    "$TAMIS" pack small/store s1 s2 -q
    as_root mount -o remount,ro small
    for how in "" --repack --auto; do
        unchanged small/store 4 "could be opened for reading only" "$TAMIS" pack small/store $how
    done
    unchanged small/store 4 "could be opened for reading only" "$TAMIS" unpack small/store
    unchanged small/store 4 "could be opened for reading only" \
        "$TAMIS" build small/store --each s1.keys --pack
    ok "$TAMIS" probe small/store 1003
    prints "s1	HIT"
}

# Each of 20 packings meets an edit that replaces a segment.
@test "segments are replaced while others are packed" {
    "$TAMIS" init store
    four store
    (for i in $(seq 40); do "$TAMIS" build store s1 s1.keys --replaces s1 -q || exit 1; done) &
    builder=$!
    for i in $(seq 20); do
        "$TAMIS" pack store -q || explain "packed"
        "$TAMIS" pack store --repack -q || explain "packed"
        [ -z "$("$TAMIS" probe store 1000 1300 2000 4300 | grep ABSENT)" ] || explain "no key is lost"
    done
    wait $builder
    ok "$TAMIS" verify store --against-each s*.keys --strip .keys
    prints "in 4 segments: 0 lost"
}

@test "more columns than a band has" {
    mkdir lists
    seq -w 33000 | split -l 1 -a 5 - lists/k
    "$TAMIS" init store
    ok "$TAMIS" build store --each lists/* --pack
    [[ $stderr == "packed 33000 segments: "* ]] || explain "33000 segments"
    ok "$TAMIS" pack store --repack
    [[ $stderr == "packed 33000 segments, 33000 of them from other packs: "*", 2 bands" ]] ||
        explain "2 bands"
    ok "$TAMIS" probe store 00001 33000
    [ "$(cut -f 3 <<<"$output" | sort -u)" = HIT ]
    prints "kaaaaa"
    prints "kabwvf"
}

@test "a pack without its tombstones" {
    "$TAMIS" init store
    four store
    "$TAMIS" pack store -q
    rm store/filters/*.dead
    fails 3 "the packs of 4 segments are missing or damaged" "$TAMIS" unpack store
    fails 3 "the pack of 1 segment is missing or damaged" "$TAMIS" unpack store s2
    for how in "" --repack --auto --dry-run --keep; do
        fails 3 "the packs of 4 segments are missing or damaged: put .* back, or build these" "$TAMIS" pack store $how
    done
    fails 3 "the pack of 1 segment is missing" "$TAMIS" pack store s2
    run --separate-stderr "$TAMIS" verify store
    [ "$status" -eq 3 ]
    [ "$(grep -c "lost.*the .dead file beside this pack is missing" <<<"$output")" -eq 4 ]
    run "$TAMIS" stat store
    prints "0 unreadable, 4 lost"
    ok "$TAMIS" probe store 1003
    [ "$(cut -f 3 <<<"$output" | sort -u)" = FILE_LOST ]
}

# Their bytes can be read, and are refused: that is a loss (SPEC.md, section 17.4).
@test "a pack that is short, and bad tombstones" {
    "$TAMIS" init store
    four store
    "$TAMIS" pack store -q
    cp -a store short
    truncate -s 5000 short/filters/*.tamis
    poke store/filters/*.dead 50 '\xff'
    for s in store short; do
        ok "$TAMIS" probe $s 1003
        [ "$(cut -f 3 <<<"$output" | sort -u)" = FILE_LOST ]
        ok "$TAMIS" ls $s
        [ "$(awk '{ print $1, $4 }' <<<"$output" | sort -u)" = "packed 0" ]
        run --separate-stderr "$TAMIS" verify $s
        [ "$(cut -f 2 <<<"$output" | sort -u)" = unreadable ]
        fails 3 "4 files left out: 'tamis verify' of the store" "$TAMIS" backup $s $s.copy
    done
}

# The others in a pack are said to be saved only if there are any.
@test "a page that all segments need" {
    "$TAMIS" init store
    four store
    "$TAMIS" pack store -q
    poke store/filters/*.tamis 5000 '\x55\x55\x55\x55\x55\x55\x55\x55'
    fails 3 "segments affected: 4 of 4; build these anew from their keys$" "$TAMIS" verify store
}

# A file that cannot be written is no fault of the pack.
@test "unpacking names the file that it cannot write" {
    "$TAMIS" init store
    four store
    "$TAMIS" pack store -q
    pack=$(basename store/filters/*.tamis)
    (
        ulimit -f 7
        unchanged store 4 "cannot write the file of segment 's1': File too large: raise" "$TAMIS" unpack store s1
        [[ $stderr != *"$pack"* ]] || explain "the new file"
    )
    mv "store/filters/$pack" away
    ln -s away "store/filters/$pack"
    fails 3 "the packs of 4 segments are missing or damaged: put the pack's files back" "$TAMIS" pack store --repack
}
