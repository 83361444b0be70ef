# Output that cannot be written is never success; places that cannot be written to.
load ../common

teardown() {
    for at in ro small; do
        ! mountpoint -q "$BATS_TEST_TMPDIR/$at" || as_root umount "$BATS_TEST_TMPDIR/$at"
    done
}

@test "a standard output that is closed, or on a full disk" {
    make_store
    make_file
    for c in help --version "help probe" "ls store" "ls store --json" "stat store" \
        "verify store" "probe store a" "probe store a --json" "probe store --keys keys" \
        "file show f.tamis" "file show f.tamis --json" "file probe f.tamis 1" \
        "file verify f.tamis" "plan --keys 5 --fpr 0.1" "plan --growth --json"; do
        for to in '>/dev/full' '>&-'; do
            fails 4 "standard output: writing failed" bash -c "tamis $c $to"
        done
    done
    # A command that prints nothing needs no output.
    ok bash -c 'echo x | tamis build store three >&-'
    exits 10 bash -c 'tamis probe store -q nope >&-'
    ok tamis verify store
}

# Work that is done is reported as done, even if the report is lost.
@test "a report that cannot be written: the work is done, and the line says so" {
    make_store
    printf '1\n' >k
    lost="^tamis: standard output: writing failed: (No space left|Bad file).*: the work is done, only its report is lost$"
    n=0
    for to in '>/dev/full' '>&-'; do
        n=$((n + 1))
        for c in "build store b$n k --json" "build store bare$n --bare --json" \
            "grow store g$n k --json" "drop store b$n --json" "file build f$n k --json" \
            "union store u$n one two" "fold store h$n one --by 1 --json" \
            "file union uu$n f$n f$n" "backup store copy$n" "backup store json$n --json" \
            "repair store" "repair store --json" "repair store --confirm --json"; do
            fails 4 "$lost" bash -c "tamis $c $to"
        done
        ok tamis ls store --names
        for s in bare$n g$n u$n h$n; do prints "$s"; done
        ! [[ $output =~ b$n$ ]] || explain "b$n dropped"
        ok tamis verify copy$n
        ok tamis verify json$n
        ok tamis file verify uu$n
        # Nothing is done by a dry run, and nothing was by what failed.
        fails 4 'writing failed: [^:]*: (free some space|it is closed, send it to a file)$' \
            bash -c "tamis repair store --dry-run $to"
        fails 2 "exists already" bash -c "tamis build store one k --json $to"
    done
    # Damage that was dealt with is another status, and its line would hide this one.
    seq 5000 | tamis build store bad
    flip "$(filter_of bad)" 5000
    fails 4 "$lost" bash -c 'tamis repair store >/dev/full'
    ok tamis verify store
}

# A picture is larger than the buffer: so the first write that fails is not the last.
@test "pictures on a standard output that cannot be written name the cause" {
    make_store
    printf '1000 0 a\n' >sizes
    for c in "stat store" "plan store --bytes 64K" "plan --sizes sizes --bytes 64K"; do
        fails 4 "standard output: writing failed: Bad file descriptor: it is closed" \
            bash -c "tamis $c --svg - >&-"
        fails 4 "standard output: writing failed: No space left" bash -c "tamis $c --svg - >/dev/full"
        capture bash -c "trap '' PIPE; exec 5> >(exec true); wait \$!; tamis $c --svg - >&5; echo status \$? >&2"
        [ "$stderr" = $'tamis: standard output: writing failed: Broken pipe\nstatus 4' ]
    done
}

@test "standard error closed: messages do not end up in files" {
    make_store
    exits 2 bash -c 'tamis build store one /dev/null 2>&-'
    ok tamis verify store
}

@test "SIGPIPE, and EPIPE where it is ignored" {
    make_store
    seq 200000 >k
    exits 141 bash -c 'set -o pipefail; tamis probe store --keys k | head -1'
    [ "${#lines[@]}" -eq 1 ]
    capture bash -c 'trap "" PIPE; { tamis probe store --keys k; echo "status $?" >&2; } | head -1'
    [[ $stderr =~ "standard output: writing failed" ]]
    [[ $stderr =~ "status 4" ]]
}

@test "a directory that may not be written to" {
    dir=$(mktemp -d /tmp/tamis-cli.XXXXXX)
    cp "$TAMIS" "$dir/tamis"
    mkdir "$dir/locked"
    "$dir/tamis" init "$dir/locked/store"
    echo a | "$dir/tamis" build "$dir/locked/store" one
    chmod 755 "$dir"
    chmod -R a+rX,a-w "$dir/locked"
    for c in "init $dir/locked/new" "file build $dir/locked/f.tamis /dev/null" \
        "build $dir/locked/store two /dev/null" "grow $dir/locked/store g /dev/null"; do
        capture unprivileged "$dir/tamis" $c
        results+=("$status $stderr")
    done
    chmod -R u+w "$dir"
    rm -rf "$dir"
    printf '%s\n' "${results[@]}"
    for r in "${results[@]}"; do [[ $r =~ ^4\ tamis:\ .*:\  ]]; done
    [[ ${results[0]} =~ new:.*Permission ]]
    [[ ${results[1]} =~ f\.tamis:.*Permission ]]
}

@test "a read-only file system: reading goes on, writing says why not" {
    make_store
    mkdir ro
    as_root mount --bind . ro
    as_root mount -o remount,bind,ro ro
    for c in "probe ro/store a nope" "ls ro/store" "verify ro/store" \
        "build ro/store three /dev/null" "grow ro/store g /dev/null" "init ro/new"; do
        capture tamis $c
        results+=("$status $stderr")
    done
    as_root umount ro
    printf '%s\n' "${results[@]}"
    for i in 0 1 2; do [ "${results[i]}" = "0 " ]; done
    for i in 3 4 5; do [[ ${results[i]} =~ ^4\ tamis:\ .*:\  ]]; done
}

# LMDB maps its lock file, which has no block yet.
@test "a store on a file system that is full" {
    mkdir small
    as_root mount -t tmpfs -o size=1m,mode=1777 tmpfs small
    seq 100 >k
    tamis init small/o
    tamis build small/o s k
    tamis backup small/o small/copy
    dd if=/dev/zero of=small/fill bs=1k 2>/dev/null || :
    results=()
    for c in "probe small/copy 5" "init small/new"; do
        capture tamis $c
        results+=("$status $stderr")
    done
    left=$(ls small)
    rm small/fill
    run tamis probe small/copy 5
    as_root umount small
    printf '%s\n' "${results[@]}"
    [ "${results[0]}" = "0 " ] # without LMDB's lock file, which has no room
    [[ ${results[1]} =~ ^4\ tamis:\ .*No\ space ]]
    [ "$left" = $'copy\nfill\no' ]
    [ "$status" -eq 0 ]
    [ "$output" = $'5\ts\tHIT' ]
}

@test "a file system that is full" {
    mkdir small
    as_root mount -t tmpfs -o size=1m,mode=1777 tmpfs small
    seq 2000000 >k
    capture tamis file build small/f.tamis k
    result="$status $stderr" left=$(ls small)
    seq 8400000 >k
    capture env TMPDIR="$PWD/small" tamis file build g.tamis k
    spool="$status $stderr"
    as_root umount small
    [[ $spool =~ ^4\ tamis:\ $PWD/small:\ .*No\ space.*:\ set\ TMPDIR ]]
    [ ! -e g.tamis ]
    [[ $result =~ ^4\ tamis:\ .*small/f.tamis.*No\ space ]] || [[ $result =~ ^4\ tamis:.*No\ space ]]
    [ -z "$left" ]
}
