# Another process packs, repacks or unpacks while a command looks at the store: what is
# elsewhere by then is looked at there, and nothing is said to be lost.
load ../common

# Segments s1 .. s4, as loose files, in "loose"; in one pack, in "packed"; with lists of
# their hashes, in "listed".
setup_file() {
    cd "$BATS_FILE_TMPDIR" || return 1
    tamis init loose --seed 0000000000000001
    for i in 1 2 3 4; do seq $((i * 1000)) $((i * 1000 + 300)) >s$i.keys; done
    tamis build loose --each s*.keys --strip .keys -q
    cp -a loose packed
    tamis pack packed -q
    tamis init listed
    tamis build listed --each s*.keys --strip .keys --list -q
    tamis init halves
    seq 40000 | tamis build halves a -q
}

# goes_on PID: continues the process; true once it has ended.
goes_on() {
    ! kill -CONT "$1" 2>/dev/null
}

# meanwhile FROM CHANGE... -- COMMAND...: stops the command when it has asked for the file of
# s1, the first one, makes the change to the store, and lets the command go on: all is well,
# and no word of loss is said. With asks=SEGMENT it is that one's file; with by=CALL it stops
# at such a system call for the file; with at=CALL at its first such call for any file.
meanwhile() {
    local change=() file pid want=${want:-0} calls=${at:-${by:-openat,openat2,%%stat}} where=()
    rm -rf store trace pid
    cp -a "$BATS_FILE_TMPDIR/$1" store
    shift
    while [ "$1" != -- ]; do change+=("$1") && shift; done
    shift
    file=$(tamis ls store "${asks:-s1}" --json | jq -r '.[0].file')
    [ -n "$at" ] || where=(-P "$(realpath "store/$file")" -P "$(basename "$file")")
    ASAN_OPTIONS=detect_leaks=0 strace -f -o trace "${where[@]}" -e trace="$calls" \
        -e inject="$calls":signal=STOP:when=1 \
        sh -c 'echo $$ >pid && exec "$@"' sh "$@" >out 2>err 3>&- &
    soon grep -qs "stopped by SIGSTOP" trace || explain "it stops"
    pid=$(cat pid)
    "${change[@]}" || explain "changed"
    # Once for each kind of call: the first one of each stops it.
    soon goes_on "$pid"
    status=0
    wait $! || status=$?
    output=$(cat out) stderr=$(cat err)
    [ "$status" -eq "$want" ] || explain "$want"
    [ "$want" -ne 0 ] || [ -z "$stderr" ] || is_closing "$stderr" || explain 0
    ! [[ $output$stderr =~ LOST|([1-9][0-9]*\ |$'\t')lost ]] || explain "no loss: $*"
}

# every COMMAND...: whatever changes meanwhile.
every() {
    meanwhile loose tamis pack store -q -- "$@"
    meanwhile packed tamis pack store --repack -q -- "$@"
    meanwhile packed tamis unpack store -q -- "$@"
}

@test "verify" {
    every tamis verify store
    [ "$(cut -f 2 <<<"$output" | sort | uniq -c | tr -s ' ')" = " 4 ok" ] || explain "4 ok"
    meanwhile loose tamis drop store s4 -q -- tamis verify store
    [ "$(cut -f 1-2 <<<"$output")" = $'s1\tok\ns2\tok\ns3\tok' ] || explain "3 ok"
    meanwhile loose tamis build store s4 "$BATS_FILE_TMPDIR/s1.keys" --replaces s4 -q -- tamis verify store
    [ "$(grep -c $'^s[1-4]\tok' <<<"$output")" -eq 4 ] || explain "4 ok"
}

@test "verify --against-list" {
    local verify=(tamis verify store --against-list) asks by
    local replace=(tamis build store s4 "$BATS_FILE_TMPDIR/s1.keys" --replaces s4 -q)
    # Before the files of s4 are asked for, and when its filter is open.
    for asks in s3 s4; do
        [ $asks = s3 ] || by=openat,openat2
        meanwhile listed tamis drop store s4 -q -- "${verify[@]}"
        prints 'checked [0-9]+ hashes in [34] segments: 0 lost'
        meanwhile listed "${replace[@]}" -- "${verify[@]}"
        prints ': 0 lost'
        meanwhile listed "${replace[@]}" --list -- "${verify[@]}"
        prints 'checked 1204 hashes in 4 segments: 0 lost'
    done
}

@test "stat" {
    every tamis stat store
    prints "segments +4: 4 sealed"
    every tamis stat store s1 s2 s3 s4
    [ "$(grep -c "^segment  " <<<"$output")" -eq 4 ] || explain "4 segments"
    every tamis stat store --residency
    every tamis stat store --prometheus --check
    [ "$(grep -c '^tamis_segment_readable.* 1$' <<<"$output")" -eq 4 ] || explain "4 readable"
}

@test "probe" {
    for i in 1 2 3 4; do
        every tamis probe store $((i * 1000 + 7))
        prints "s$i	HIT"
    done
    every tamis probe store 2001 --segment s1 --segment s2 --min-watermark 0
    prints "s2	HIT"
}

@test "union, compare, unpack" {
    every tamis union store both s1 s2
    every tamis compare store s1 s2
    meanwhile packed tamis pack store --repack -q -- tamis unpack store
    [[ $stderr == "unpacked 4 segments: "* ]] || explain "4 segments"
}

@test "fold, union, intersect: a source that is replaced once the new filter is written" {
    local replace=(tamis build store s1 "$BATS_FILE_TMPDIR/s2.keys" --replaces s1 -q) c
    for c in "fold store s1 s1 --by 1" "union store s1 s1 s2 --replaces s2" "intersect store s1 s1" \
        "union store u s1 s2"; do
        want=6 at=fsync meanwhile loose "${replace[@]}" -- tamis $c --replaces s1
        [[ $stderr == *"segment 's1' has another filter than was meant: it was replaced: run it again" ]] ||
            explain "$c"
        [ -z "$output" ] || explain "no output"
        ok tamis verify store s1 --against "$BATS_FILE_TMPDIR/s2.keys"
        [ "$(tamis ls store --names)" = $'s1\ns2\ns3\ns4' ]
        [ "$(find store/filters -type f | wc -l)" -eq 4 ]
    done
}

@test "pack of named segments, one of which is replaced" {
    replace=(tamis build store s1 "$BATS_FILE_TMPDIR/s1.keys" --replaces s1 -q)
    want=6 meanwhile loose "${replace[@]}" -- tamis pack store s1 s2
    [[ $stderr == *"'s1' was replaced or dropped meanwhile: run it again" ]] || explain "which"
}

@test "pack --repack, of whose segments one is replaced once the pack is written" {
    seq 9000 9300 >new.keys
    replace=(tamis build store s1 new.keys --replaces s1 -q)
    at=fsync meanwhile packed "${replace[@]}" -- tamis pack store --repack
    [[ $stderr == "packed 3 segments"*"left: 1 replaced or dropped meanwhile" ]] || explain "which"
    ok tamis verify store
    ok tamis probe store --segment s1 -- 9000 9123 9300
    [ "$(grep -c HIT <<<"$output")" -eq 3 ] || explain "the new keys"
}

@test "plan" {
    local plan=(tamis plan store --bytes 200K)
    every "${plan[@]}"
    # The filters behind that of s1 are not open by then.
    meanwhile listed tamis drop store s4 -q -- "${plan[@]}" --json
    [ "$(jq -c '[.segments[].segment]' <<<"$output")" = '["s1","s2","s3"]' ] || explain "3 segments"
    meanwhile listed tamis build store s4 "$BATS_FILE_TMPDIR/s2.keys" --replaces s4 -q -- "${plan[@]}" --json
    [ "$(jq -c '[.segments[].action] | length, index("unread")' <<<"$output" | tr '\n' ' ')" = "4 null " ] || explain "4 segments"
    meanwhile listed tamis drop store s4 -q -- "${plan[@]}" --apply
    ! [[ $output == *s4* ]] || explain "no word of s4"
    every tamis plan store --pack --fpr 1%
    prints "^segments +4, 1204 keys"
}

@test "plan --apply: a segment that is dropped meanwhile needs nothing" {
    local plan=(tamis plan store --bytes 200K --apply) calls
    for calls in openat,openat2,%%stat fsync; do
        [ $calls != fsync ] || local at=fsync # the new filter of s1 is written
        asks=s4 meanwhile listed tamis drop store s1 -q -- "${plan[@]}"
        ! [[ $output == *s1* ]] || explain "no word of s1"
        [ "$(grep -c '^rebuilt  s[234] from its list' <<<"$output")" -eq 3 ] || explain "the others"
        prints " $(tamis ls store --json | jq 'map(.bytes) | add') bytes of filters now"
    done
    # A fold, in the same way.
    at=fsync meanwhile halves tamis drop store a -q -- tamis plan store --bytes 20K --apply
    ! [[ $output == *"  a"* ]] || explain "no word of a"
}

@test "plan --apply: a segment that is replaced or dropped has no list to miss" {
    # The filters are open by then, and no list is.
    local plan=(tamis plan store --bytes 200K --apply) asks=s4
    meanwhile listed tamis build store s1 "$BATS_FILE_TMPDIR/s2.keys" --replaces s1 -q -- "${plan[@]}"
    [[ $output == *"unread   the list of segment 's1': "* ]] || explain "its list is gone"
    [ "$(grep -c '^rebuilt  s[234] from its list' <<<"$output")" -eq 3 ]
    ok tamis verify store s1 --against "$BATS_FILE_TMPDIR/s2.keys"
    meanwhile listed tamis drop store s1 -q -- "${plan[@]}"
    want=3 meanwhile listed lose_list -- "${plan[@]}"
}

@test "plan --apply: a segment that is replaced once its new filter is written" {
    local replace=(tamis build store s1 "$BATS_FILE_TMPDIR/s2.keys" --replaces s1 -q)
    want=6 at=fsync meanwhile listed "${replace[@]}" -- tamis plan store --bytes 200K --apply
    [[ $stderr == *"'s1' has another filter than was meant"*"run it again" ]] || explain "which"
    ok tamis verify store s1 --against "$BATS_FILE_TMPDIR/s2.keys"
    # A fold, in the same way.
    replace=(tamis build store a "$BATS_FILE_TMPDIR/s2.keys" --replaces a -q)
    want=6 asks=a at=fsync meanwhile halves "${replace[@]}" -- tamis plan store --bytes 20K --apply
    [[ $stderr == *"'a' has another filter than was meant"*"run it again" ]] || explain "which"
}

lose_list() {
    rm "$(list_of s1)"
}
