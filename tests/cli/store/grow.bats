# Growing filters: grow, seal, watermarks, writers that meet and writers that die.
load ../common

# A writer with its input held open on descriptor 7; $pid.
hold_writer() {
    mkfifo input
    "$TAMIS" grow store g - <input >/dev/null 3>&- &
    pid=$!
    exec 7>input
    printf 'held\n' >&7
    soon is_known held
}

is_known() {
    [ "$("$TAMIS" probe store "$1" --segment g 2>/dev/null)" = "$1"$'\tg\tHIT' ]
}

@test "grow makes a segment, adds to it, and seal closes it" {
    ok "$TAMIS" init store --n0 100
    seq 1000 >k
    ok "$TAMIS" grow store g k
    seq 1001 2000 >l
    ok "$TAMIS" grow store g l --watermark 9
    ok "$TAMIS" stat store g
    prints 'growing, no writer'
    prints 'watermark +9'
    [[ ${lines[-1]} =~ ^\ +4\  ]]
    cat k l >all
    ok "$TAMIS" verify store g --against all
    prints "checked 2000 keys in 1 segment: 0 lost"
    ok "$TAMIS" seal store g
    ok "$TAMIS" ls store
    prints '^sealed'
    ok "$TAMIS" verify store g --against all
    prints ": 0 lost"
    fails 2 "sealed" "$TAMIS" grow store g k
    fails 2 "sealed" "$TAMIS" seal store g
}

@test "grow and seal refuse segments that are built or bare" {
    make_store
    ok "$TAMIS" build store zero --bare
    fails 2 "sealed" "$TAMIS" grow store one /dev/null
    fails 2 "sealed" "$TAMIS" seal store one
    fails 2 "'zero' is registered without a filter: .*--replaces" \
        "$TAMIS" grow store zero /dev/null
    # The advice is a word that a shell takes.
    ok "$TAMIS" build store "b'x" --bare
    fails 2 "with --replaces 'b'" "$TAMIS" grow store "b'x" /dev/null
    [ "$(eval "printf %s ${stderr##*--replaces }")" = "b'x" ] || explain quoted
}

@test "growth options: kept, and refused if they differ" {
    ok "$TAMIS" init store
    ok "$TAMIS" grow store g /dev/null --empty --fpr 0.001 -s 4 -r 0.9 --n0 10
    ok "$TAMIS" stat store g
    prints 'target 0.1%'
    ok "$TAMIS" grow store g /dev/null --empty --fpr 0.001 -s 4
    fails 2 "grows with --fpr 0.001 -s 4 -r 0.9 --n0 10" \
        "$TAMIS" grow store g /dev/null --fpr 0.01
    fails 2 "grows with" "$TAMIS" grow store g /dev/null --n0 11
}

@test "watermarks never fall" {
    ok "$TAMIS" init store
    ok "$TAMIS" grow store g /dev/null --empty --watermark 100
    fails 2 "at watermark 100: --watermark never falls" \
        "$TAMIS" grow store g /dev/null --watermark 99
    echo k >k
    ok "$TAMIS" grow store g k
    ok "$TAMIS" stat store g --json
    prints '"watermark": 100'
    fails 2 "never falls" "$TAMIS" seal store g --watermark 99
    ok "$TAMIS" seal store g --watermark 101
}

# reports STATUS FACTS ARGUMENT...: that status, one line on stderr, and these facts.
reports() {
    run --separate-stderr "$TAMIS" "${@:3}" --json
    [ "$status" -eq "$1" ] && [ "${#stderr_lines[@]}" -eq 1 ] &&
        [ "$(jq -c '[.keys_read, .keys, .watermark, .interrupted, .committed]' <<<"$output")" = "$2" ] ||
        explain "$1, $2"
}

@test "a broken key list: what came before it is in, the watermark stays" {
    ok "$TAMIS" init store
    ok "$TAMIS" grow store g /dev/null --empty
    printf '61\nxx\n' >k
    said="; segment 'g': the first 1 key of the list is committed, 1 in all, at watermark 0: run it again with the list$"
    fails 2 "k: line 2: .*$said" "$TAMIS" grow store g k --hex --watermark 5
    { echo z; head -c 70000 /dev/zero | tr '\0' x; } >long
    fails 2 "long: line 2: longer than 65536 bytes.*; segment 'g': the first 1 key of the list is committed, 2 in all" \
        "$TAMIS" grow store g long -q
    printf '\1\0\0\0b\3\0\0\0ab' >cut
    fails 2 "cut: key 2: .*; segment 'g': the first 1 key of the list is committed, 3 in all" \
        "$TAMIS" grow store g cut --binary
    reports 2 '[1,3,0,true,true]' grow store g cut --binary --watermark 5
    ok "$TAMIS" probe store a
    prints HIT
    ok "$TAMIS" stat store g --json
    prints '"watermark": 0'
}

@test "--json: what is in, whatever ended it" {
    ok "$TAMIS" init store
    seq 100 >k
    ok "$TAMIS" grow store g k --watermark 3
    mkfifo input
    env --default-signal=INT,TERM,HUP "$TAMIS" grow store g - --watermark 9 --json <input >out 2>err 3>&- &
    pid=$!
    exec 7>input
    printf 'held\nINT\n' >&7
    soon is_known INT
    kill -INT "$pid"
    status=0
    wait "$pid" || status=$?
    exec 7>&-
    [ "$status" -eq 130 ]
    [ "$(jq -c '[.segment, .keys_read, .keys, .watermark, .interrupted, .committed]' out)" = '["g",2,102,3,true,true]' ]
    grep -qx "tamis: store: segment 'g': interrupted: the first 2 keys of the list are committed, 102 in all, at watermark 3: run it again with the list" err
    # A full disk: the keys cannot be synced, and are not acknowledged.
    told=0
    for n in $(seq 20); do
        ASAN_OPTIONS=detect_leaks=0 run --separate-stderr strace -f -o /dev/null -e trace=fdatasync \
            -e "inject=fdatasync:error=ENOSPC:when=$n" "$TAMIS" grow store g k --watermark $((n + 9)) --json
        [ "$status" -ne 4 ] || { [ "${#stderr_lines[@]}" -eq 1 ] && [[ $stderr =~ "No space left" ]]; } || explain 4
        case $(jq -c '[.interrupted, .committed]' <<<"$output") in
        '[true,false]')
            told=$((told + 1))
            [ "$(jq -c '[.segment, .created, .keys_read, .watermark < '$((n + 9))']' <<<"$output")" = \
                '["g",false,100,true]' ] || explain "the old watermark" ;;
        '[false,true]') [ "$(jq '.watermark' <<<"$output")" -eq $((n + 9)) ] ;;
        *) [ -z "$output" ] || explain "a report, or none" ;;
        esac
    done
    [ "$told" -ge 1 ] || { echo "$told"; false; }
    ok "$TAMIS" verify store g --against k
    # Nothing was done: nothing is reported.
    fails 2 "never falls" "$TAMIS" grow store g k --watermark 1 --json
    [ -z "$output" ]
}

# It is not dropped again: another process may have committed to it meanwhile.
@test "a broken key list for a new segment: it stays, with nothing acknowledged" {
    ok "$TAMIS" init store
    { seq 1000 1999 | sed 's/../3&3/g'; echo xx; } >k
    fails 2 "k: line 1001: not an even" "$TAMIS" grow store g k --hex --watermark 9
    ok "$TAMIS" stat store g --json
    prints '"watermark": 0'
    ok "$TAMIS" verify store
    ok "$TAMIS" grow store g /dev/null --empty --watermark 10
}

@test "--bind and --rank of a segment that exists: the same, or refused" {
    ok "$TAMIS" init store
    ok "$TAMIS" grow store g /dev/null --empty --bind c0ffee --rank 7
    ok "$TAMIS" grow store g /dev/null --empty --bind c0ffee --rank 7
    ok "$TAMIS" grow store g /dev/null --empty
    echo k >k
    fails 3 "'g' is bound to c0ffee: leave out --bind" "$TAMIS" grow store g k --bind c0ff
    fails 3 "'g' is bound to c0ffee" "$TAMIS" grow store g k --bind c0ffef
    fails 2 "'g' has --rank 7: leave it out" "$TAMIS" grow store g k --rank 6
    ok "$TAMIS" grow store h /dev/null --empty
    fails 3 "'h' is bound to nothing" "$TAMIS" grow store h k --bind c0
    ok "$TAMIS" grow store h /dev/null --empty --rank 0
    ok "$TAMIS" probe store k
    prints ABSENT
}

@test "a filter that cannot grow: status 4, and the keys are in" {
    ok "$TAMIS" init store --n0 50000
    seq 100000 >k
    fails 4 "segment 'g' could not grow: all 100000 keys of the list are committed, but the error is [0-9.]*%, and 1% wanted: make room and build" \
        bash -c 'ulimit -f 200; "$TAMIS" grow store g k --watermark 7'
    run --separate-stderr bash -c 'ulimit -f 200; "$TAMIS" grow store g k --json'
    [ "$status" -eq 4 ] && [ "$(jq -c '[.keys_read, .interrupted, .committed, .over_target]' <<<"$output")" = '[100000,false,true,true]' ] || explain 4
    ok "$TAMIS" stat store g --json
    prints '"watermark": 7'
    ok "$TAMIS" verify store g --against k
    prints ": 0 lost"
}

@test "a filter that cannot grow is over its target only if its error is" {
    ok "$TAMIS" init store
    seq 53000 >k # the first stage is for 50000
    fails 4 "'g' could not grow: .*the error is 0[0-9.]*%, and 1% wanted: make room before" \
        bash -c 'ulimit -f 200; "$TAMIS" grow store g k'
    for c in "stat store" "stat store g" "file show $(filter_of g)"; do
        ok "$TAMIS" $c
        ! [[ $output =~ (over their target|OVER) ]] || explain "on target"
    done
    ok "$TAMIS" stat store g --json
    prints '"over_target": 0,'
    prints '"over_target": false,'
    run bash -c 'ulimit -f 200; seq 70000 200000 | "$TAMIS" grow store g'
    ok "$TAMIS" stat store g
    prints ' 1 over their target error'
    prints ': OVER TARGET'
    ok "$TAMIS" stat store g --json
    prints '"over_target": true,'
}

@test "a stage that a dead writer left full grows when its keys come again" {
    ok "$TAMIS" init store --n0 50000
    seq 100000 >k
    run bash -c 'ulimit -f 200; "$TAMIS" grow store g k'
    [[ $output =~ "could not grow" ]]
    ok "$TAMIS" grow store g k
    ok "$TAMIS" stat store g
    [[ ${lines[-1]} =~ ^\ +1\  ]] || explain "a second stage"
}

@test "a signal to end: what is in is committed, and said" {
    ok "$TAMIS" init store
    for signal in INT TERM HUP; do
        mkfifo input
        # A background job of a shell ignores SIGINT, and all under nohup SIGHUP.
        env --default-signal=INT,TERM,HUP "$TAMIS" grow store g - --watermark 9 <input >out 2>err 3>&- &
        pid=$!
        exec 7>input
        printf 'held\n%s\n' $signal >&7
        soon is_known $signal
        kill -$signal "$pid"
        status=0
        wait "$pid" || status=$?
        exec 7>&-
        rm input
        [ "$status" -gt 128 ]
        grep -qx "tamis: store: segment 'g': interrupted: the first 2 keys of the list are committed, . in all, at watermark 0: run it again with the list" err || { cat err; return 1; }
        [ ! -s out ]
        ok "$TAMIS" stat store g
        prints 'growing, no writer'
        prints 'watermark +0'
    done
}

# early SYSCALL N: Ctrl-C at the N-th of them. $end is 0 if there are fewer.
early() {
    rm -rf store
    "$TAMIS" init store
    end=0
    # shellcheck disable=SC2016
    env --default-signal=INT strace -f -o trace -e "trace=$1" -e "inject=$1:signal=INT:when=$2" \
        "$TAMIS" grow store m1 keys >/dev/null 2>err || end=$?
}

@test "a signal before the first key: one line, and a segment only if that is said" {
    seq 10 >keys
    n_none=0 n_made=0
    export ASAN_OPTIONS=detect_leaks=0
    for call in openat flock pwrite64; do
        for n in $(seq 99); do
            early $call "$n"
            [ "$end" -ne 0 ] || break
            [ "$end" -eq 130 ] || explain "130, not $end: $call $n"
            # Before the command knows its arguments nothing can be said, nor is anything made.
            if [ ! -s err ]; then
                [ "$call" = openat ] && ! grep -q '"store' trace ||
                    explain "a line: $call $n"
                [ -z "$("$TAMIS" ls store)" ] || explain "none is made: $call $n"
            elif grep -qx "tamis: store: segment 'm1': interrupted: no key of the list is committed: run it again with the list" err; then
                n_none=$((n_none + 1))
                [ -z "$("$TAMIS" ls store)" ] || explain "none is made: $call $n"
            else
                n_made=$((n_made + 1))
                grep -qEx "tamis: store: segment 'm1': interrupted: (it was made, and no key is in|the first [0-9]+ keys of the list are committed, .*): run it again with the list" err ||
                    explain "$call $n: $(cat err)"
                [ "$("$TAMIS" ls store --names)" = m1 ]
            fi
        done
    done
    [ "$n_none" -gt 3 ] && [ "$n_made" -gt 3 ] || explain "$n_none not made, $n_made made"
}

@test "two writers: the second is told who has it" {
    ok "$TAMIS" init store
    hold_writer
    fails 6 "^tamis: .*$pid.*: try again" "$TAMIS" grow store g /dev/null
    fails 6 "$pid" "$TAMIS" seal store g
    # Readers, and writers of other segments, go on.
    ok "$TAMIS" probe store held
    prints HIT
    ok "$TAMIS" grow store h /dev/null --empty
    exec 7>&-
    wait "$pid"
    ok "$TAMIS" grow store g /dev/null --empty
}

@test "while a writer has it, a segment is neither dropped nor replaced" {
    make_store
    hold_writer
    echo x >k
    fails 6 "segment '?g'?: .*process $pid.*: try again" "$TAMIS" drop store one g
    fails 6 "segment '?g'?: .*process $pid.*: try again" "$TAMIS" build store g k --replaces g
    fails 6 "process $pid" "$TAMIS" build store new k --replaces one --replaces g
    ok "$TAMIS" file build f.tamis k --store store
    fails 6 "process $pid" "$TAMIS" attach store g f.tamis --replaces g
    ok "$TAMIS" ls store
    [ "${#lines[@]}" -eq 3 ]
    [ "$(ls -A store/filters | wc -l)" -eq 3 ]
    printf 'more\n' >&7
    exec 7>&-
    wait "$pid"
    printf 'held\nmore\n' >k
    ok "$TAMIS" verify store g --against k
    prints "checked 2 keys in 1 segment: 0 lost"
    ok "$TAMIS" drop store g
}

@test "seal: all names are looked at before any is sealed" {
    make_store
    ok "$TAMIS" build store zero --bare
    echo x | "$TAMIS" grow store g --watermark 5
    echo y | "$TAMIS" grow store h --watermark 3
    fails 5 "no segment 'nosuch'" "$TAMIS" seal store g nosuch
    fails 2 "'one' is sealed" "$TAMIS" seal store g one
    fails 2 "'zero' is registered without a filter" "$TAMIS" seal store g zero
    fails 2 "'g' is at watermark 5: --watermark never falls" \
        "$TAMIS" seal store h g --watermark 4
    fails 2 "'g' is named twice" "$TAMIS" seal store g h g
    ok "$TAMIS" ls store g h
    [[ ${lines[0]} =~ ^growing && ${lines[1]} =~ ^growing ]]
    ok "$TAMIS" seal store g h --watermark 5
    ok "$TAMIS" ls store g h
    [[ ${lines[0]} =~ ^sealed && ${lines[1]} =~ ^sealed ]]
}

@test "a writer that is killed: its lock is free, its keys are in" {
    ok "$TAMIS" init store --n0 10
    seq 100 >k
    ok "$TAMIS" grow store g k --watermark 3
    hold_writer
    ok "$TAMIS" stat store g
    prints "a writer has it or died"
    kill -9 "$pid"
    wait "$pid" || true
    exec 7>&-
    is_known held
    echo more | "$TAMIS" grow store g --watermark 4
    ok "$TAMIS" stat store g
    prints "no writer"
    ok "$TAMIS" verify store g --against k
    prints ": 0 lost"
    is_known held
}

@test "a damaged page of a growing filter" {
    ok "$TAMIS" init store
    seq 60000 >k
    ok "$TAMIS" grow store g k
    file=$(filter_of g)
    at=$("$TAMIS" file show "$file" --json | grep -A6 '"stage A.0"' | grep -A4 '"offset",' |
        sed -n 's/.*"value": \([0-9]*\),*/\1/p')
    dd if=/dev/zero of="$file" bs=4096 seek=$((at / 4096)) count=1 conv=notrunc status=none
    ok "$TAMIS" probe store --keys k --count
    prints "absent_keys +0"
    fails 3 "$file: .*offset $at" "$TAMIS" verify store
    fails 3 "damaged page" "$TAMIS" seal store g
    ok "$TAMIS" verify store g --against k
    prints ": 0 lost"
}

@test "a torn commit record: the other one serves" {
    ok "$TAMIS" init store
    seq 1000 >k
    ok "$TAMIS" grow store g k
    file=$(filter_of g)
    for at in 4200 8300; do
        flip "$file" $at
        fails 3 "$file: .*torn .*the other one serves" "$TAMIS" verify store g --against k
        prints ": 0 lost"
        echo more | "$TAMIS" grow store g
        ok "$TAMIS" verify store g --against k
    done
    flip "$file" 4200
    flip "$file" 8300
    ok "$TAMIS" probe store 500500
    prints $'500500\tg\tUNREADABLE'
    fails 3 "$file" "$TAMIS" verify store
    fails 3 "$file" "$TAMIS" grow store g k
}

@test "an older copy of a growing filter put back is MAYBE" {
    ok "$TAMIS" init store --n0 10
    seq 5 >k
    ok "$TAMIS" grow store g k
    file=$(filter_of g)
    cp "$file" old
    seq 6 500 >l
    ok "$TAMIS" grow store g l
    cp old "$file"
    ok "$TAMIS" probe store --keys l --count
    prints "absent_keys +0"
    fails 3 "$file" "$TAMIS" verify store
}

@test "a filter grown from nothing, a few keys at a time, over its n0" {
    ok "$TAMIS" init store --n0 1 --fpr 0.3
    for i in 1 2 3 4 5 6 7 8; do
        seq $((i * 10)) $((i * 10 + 9)) | "$TAMIS" grow store g --watermark $i
    done
    seq 10 89 >k
    ok "$TAMIS" verify store g --against k
    prints "checked 80 keys in 1 segment: 0 lost"
    ok "$TAMIS" seal store g
    ok "$TAMIS" verify store g --against k
    prints ": 0 lost"
}

@test "a grow that waits for its first key keeps no other writer out" {
    "$TAMIS" init store
    echo a | "$TAMIS" grow store g -q
    mkfifo pipe
    for list in pipe -; do
        if [ $list = pipe ]; then
            "$TAMIS" grow store g pipe -q 3>&- &
        else
            "$TAMIS" grow store g - -q <pipe 3>&- &
            exec 7>pipe
        fi
        pid=$!
        soon grep -q 'State:.S' /proc/$pid/status
        sleep 0.3
        ok "$TAMIS" grow store g <(echo "meanwhile $list") -q
        [ $list = - ] || exec 7>pipe
        echo "late $list" >&7
        exec 7>&-
        wait $pid
        ok "$TAMIS" probe store "late $list"
        prints HIT
    done
}
