# Packing that cannot be, or ends half-way: one line says why, and the store is as before.
load ../common

teardown() {
    ! mountpoint -q small || as_root umount small
}

# Segments s1 .. s4 in a store, which is made if it is not there, as loose files.
four() {
    [ -d "$1" ] || tamis init "$1"
    for i in 1 2 3 4; do seq $((i * 1000)) $((i * 1000 + 300)) >s$i.keys; done
    tamis build "$1" --each s*.keys --strip .keys -q
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
    tamis verify "$store" >verified || explain "a store without damage"
}

@test "nothing to pack is no failure" {
    tamis init store
    for how in "" --repack --auto --dry-run; do
        ok tamis pack store $how
        [ "$stderr" = "nothing to pack" ] || explain "nothing to pack"
    done
    ok tamis unpack store
    [ "$stderr" = "nothing to unpack" ] || explain "nothing to unpack"
}

@test "a refusal is one line" {
    tamis init store
    tamis build store bare --bare
    fails 2 "of the segments named, 1 bare" tamis pack store bare
    seq 9 | tamis build store a -q
    tamis pack store -q
    fails 2 "1 packed before" tamis pack store a
    # A segment with a good column is unpacked, and lost segments are told.
    seq 5 | tamis build store b -q
    rm store/filters/*.dead
    fails 3 "1 filter damaged, or in missing or damaged packs: 'tamis verify' says which, and what works$" tamis pack store -q
    exits 3 tamis unpack store a b
    [[ ${stderr_lines[0]} == "unpacked 1 segment: "* ]]
    [[ ${stderr_lines[1]} == *"1 segment in missing or damaged packs"* ]]
    fails 2 "segment 'b' is in no pack" tamis unpack store a b
}

@test "another kind of file in the place of a pack: the rest is packed" {
    for how in "" --auto --repack; do
        for what in mkdir mkfifo; do
            rm -rf store
            four store
            tamis pack store s1 s2 -q
            pack=$(ls store/filters/*.dead)
            rm "${pack%.dead}.tamis"
            $what "${pack%.dead}.tamis"
            capture tamis pack store $how
            [ "$status" -eq 3 ] || explain "$what is damage"
            [[ ${stderr_lines[0]} == "packed 2 segments, "* ]] || explain "s3 and s4"
            [[ ${stderr_lines[1]} == *"2 filters damaged, or in missing or damaged packs"* ]]
            tells "3003	s3	HIT" tamis probe store 3003 --segment s3
        done
    done
}

@test "packs in each other's places" {
    tamis init store
    for s in a b; do
        seq 100 | tamis build store $s -q
        tamis pack store $s -q
    done
    a=$(filter_of a) b=$(filter_of b)
    mv "$a" moved && mv "$b" "$a" && mv moved "$b"
    fails 3 "this pack: belongs to something else .*: put the pack's files back, or use" \
        tamis verify store
    fails 3 "segment 'a': the pack that may have it: belongs to something else .*: put the pack's files back" \
        tamis stat store a
    mv "$a" moved && mv "$b" "$a" && mv moved "$b"
    ok tamis verify store
}

@test "several stages, another domain" {
    tamis init store --n0 1k
    four store
    seq 20000 | tamis grow store g -q
    tamis seal store g 2>sealed
    unchanged store 2 "of the segments named, 1 of several stages" tamis pack store g -q
    ok tamis pack store
    [[ $stderr == *"; left: 1 of several stages" ]] || explain "it is counted"
    tamis init other
    f=$(tamis ls store g --json | jq -r '.[0].file')
    unchanged other 3 "built with another seed" tamis attach other g "store/$f"
}

@test "no room before, and for each that needs some" {
    mkdir small
    as_root mount -t tmpfs -o size=3m,mode=1777 tmpfs small
    four small/store
    tamis pack small/store -q
    seq 5000000 7000000 >big.keys
    unchanged small/store 4 "the pack needs [0-9]+ bytes, and the disk has [0-9]+ left: free some space" \
        tamis build small/store --each big.keys s1.keys --strip .keys --pack --replaces s1
    cat /dev/zero >small/ballast 2>/dev/null || :
    unchanged small/store 4 "the pack needs [0-9]+ bytes" tamis pack small/store --repack
    unchanged small/store 4 "unpacking needs [0-9]+ bytes, and the disk has [0-9]+ left: free some space" tamis unpack small/store
    rm small/ballast
    ok tamis unpack small/store
    [ "$stderr" = "unpacked 4 segments: 32.0 KiB" ] || explain "how much it is"
    tells "in 4 segments: 0 lost" tamis verify small/store --against-each s*.keys --strip .keys
}

# LMDB's own word for it is an I/O error. How much is left decides where it happens.
@test "a disk that is full when the catalog is committed" {
    mkdir small
    as_root mount -t tmpfs -o size=3m,mode=1777 tmpfs small
    four small/store
    found=
    for left in $(seq 0 4 160); do
        rm -f small/ballast
        free=$(($(stat -f -c '%a * %S / 1024' small)))
        dd if=/dev/zero of=small/ballast bs=1k count=$((free - left)) status=none
        capture tamis pack small/store -q
        [ "$status" -ne 0 ] || break
        [ "$status" -eq 4 ] || explain "no room"
        [[ $stderr != *"Input/output"* ]] || explain "the disk is full"
        [[ $stderr == *"free some space" ]] || explain "what would do"
        [[ $stderr != *"committing: No space left"* ]] || found=1
    done
    [ -n "$found" ] || explain "one that fails in the commit"
    rm small/ballast
    tamis verify small/store >verified || explain "a store without damage"
}

@test "a read-only file system" {
    mkdir small
    as_root mount -t tmpfs -o size=3m,mode=1777 tmpfs small
    four small/store
    tamis pack small/store s1 s2 -q
    as_root mount -o remount,ro small
    for c in "pack small/store" "pack small/store --repack" "pack small/store --auto" \
        "unpack small/store" "build small/store --each s1.keys --pack"; do
        unchanged small/store 4 "could be opened for reading only" tamis $c
        [[ $c != pack* ]] || ok tamis $c --dry-run
    done
    tells "s1	HIT" tamis probe small/store 1003
}

@test "a pack without its tombstones" {
    four store
    tamis pack store -q
    rm store/filters/*.dead
    fails 3 "4 segments in missing or damaged packs" tamis unpack store
    fails 3 "1 segment in missing or damaged packs" tamis unpack store s2
    for how in "" --repack --auto --dry-run; do
        fails 3 "4 filters damaged, or in missing or damaged packs" tamis pack store $how
    done
    fails 3 "1 filter damaged" tamis pack store s2
    exits 3 tamis verify store
    [ "$(grep -c "lost.*the .dead file beside this pack is missing" <<<"$output")" -eq 4 ]
    run tamis stat store
    prints "0 unreadable, 4 lost"
    ok tamis probe store 1003
    [ "$(cut -f 3 <<<"$output" | sort -u)" = FILE_LOST ]
}

# Their bytes can be read, and are refused: that is a loss (SPEC.md, section 17.4).
@test "a pack that is short, and bad tombstones" {
    four store
    tamis pack store -q
    cp -a store short
    truncate -s 5000 short/filters/*.tamis
    flip store/filters/*.dead 50
    for s in store short; do
        ok tamis probe $s 1003
        [ "$(cut -f 3 <<<"$output" | sort -u)" = FILE_LOST ]
        ok tamis ls $s
        [ "$(awk '{ print $1, $4 }' <<<"$output" | sort -u)" = "packed 0" ]
        capture tamis verify $s
        [ "$(cut -f 2 <<<"$output" | sort -u)" = unreadable ]
        fails 3 "1 file left out: 'tamis verify' of the store" tamis backup $s $s.copy
    done
}

# The segments of the pack are unknown then: no line can tell of them.
@test "a pack on which the catalog does not agree" {
    four store
    tamis pack store s1 s2 s3 -q
    pack=$(basename store/filters/*.dead .dead)
    words="$pack.tamis: the catalog does not agree on this pack's columns: 'tamis repair' lists them anew"
    # One bit behind its key.
    perl -0777 -e 'open $f, "+<:raw", $ARGV[0]; $_ = <$f>; $key = pack "H*", $ARGV[1];
        s/\x10\x00\Q$key\E\K./$& ^ "\1"/ges or exit 1; seek $f, 0, 0; print $f $_' store/catalog.lmdb "$pack"
    exits 3 tamis stat store
    fails 3 "^tamis: store/filters/$words" tamis verify store
    prints $'^s4\tok\t.*\n-\tpack\tfilters/'"$words"
    exits 3 tamis verify store --json
    [ "$(jq -c '[(.segments | length), (.packs | map(keys) | add)]' <<<"$output")" = '[1,["file","what"]]' ]
    fails 0 "^tamis: store/filters/$words" tamis probe store 1003
    prints $'\n1003\t-\tUNKNOWN_SEGMENT'
    fails 3 "damage was found, and dealt with" tamis repair store
    ok tamis verify store
}

# The others in a pack are said to be saved only if there are any.
@test "a page that all segments need" {
    four store
    tamis pack store -q
    poke store/filters/*.tamis 5000 '\x55\x55\x55\x55\x55\x55\x55\x55'
    fails 3 "segments affected: 4 of 4; build these anew from their keys$" tamis verify store
}

# A file that cannot be written is no fault of the pack.
@test "unpacking names the file that it cannot write" {
    four store
    tamis pack store -q
    pack=$(basename store/filters/*.tamis)
    (
        ulimit -f 7
        unchanged store 4 "cannot write the file of segment 's1': File too large: raise" tamis unpack store s1
        [[ $stderr != *"$pack"* ]] || explain "the new file"
    )
    mv "store/filters/$pack" away
    ln -s away "store/filters/$pack"
    fails 3 "4 filters damaged, or in missing" tamis pack store --repack
}
