# Growing filters: grow, seal, watermarks, writers that meet and writers that die.
load ../common

@test "grow makes a segment, adds to it, and seal closes it" {
    ok tamis init store --n0 100
    seq 1000 >k
    ok tamis grow store g k
    seq 1001 2000 >l
    ok tamis grow store g l --watermark 9
    tells 'growing, no writer' tamis stat store g
    prints 'watermark +9'
    [[ ${lines[-1]} =~ ^\ +4\  ]]
    cat k l >all
    tells "checked 2000 keys in 1 segment: 0 lost" tamis verify store g --against all
    ok tamis seal store g
    tells '^sealed' tamis ls store
    tells ": 0 lost" tamis verify store g --against all
    fails 2 "sealed" tamis grow store g k
    fails 2 "sealed" tamis seal store g
}

@test "grow and seal refuse segments that are built or bare" {
    make_store
    ok tamis build store zero --bare
    fails 2 "sealed" tamis grow store one /dev/null
    fails 2 "'zero' is registered without a filter: .*--replaces" tamis grow store zero /dev/null
    # The advice is a word that a shell takes.
    ok tamis build store "b'x" --bare
    fails 2 "with --replaces 'b'" tamis grow store "b'x" /dev/null
    [ "$(eval "printf %s ${stderr##*--replaces }")" = "b'x" ] || explain quoted
}

@test "growth options: kept, and refused if they differ" {
    ok tamis init store
    ok tamis grow store g /dev/null --empty --fpr 0.001 -s 4 -r 0.9 --n0 10
    tells 'target 0.1%' tamis stat store g
    ok tamis grow store g /dev/null --empty --fpr 0.001 -s 4
    fails 2 "grows with --fpr 0.001 -s 4 -r 0.9 --n0 10" tamis grow store g /dev/null --fpr 0.01
    fails 2 "grows with" tamis grow store g /dev/null --n0 11
}

@test "watermarks never fall" {
    ok tamis init store
    ok tamis grow store g /dev/null --empty --watermark 100
    fails 2 "at watermark 100: --watermark never falls" tamis grow store g /dev/null --watermark 99
    echo k >k
    ok tamis grow store g k
    tells '"watermark": 100' tamis stat store g --json
    fails 2 "never falls" tamis seal store g --watermark 99
    ok tamis seal store g --watermark 101
}

# reports STATUS FACTS ARGUMENT...: that status, one line on stderr, and these facts.
reports() {
    capture tamis "${@:3}" --json
    [ "$status" -eq "$1" ] && [ "${#stderr_lines[@]}" -eq 1 ] &&
        [ "$(jq -c '[.keys_read, .keys, .watermark, .interrupted, .committed]' <<<"$output")" = "$2" ] ||
        explain "$1, $2"
}

@test "a broken key list: what came before it is in, the watermark stays" {
    ok tamis init store
    ok tamis grow store g /dev/null --empty
    printf '61\nxx\n' >k
    said="; segment 'g': the first 1 key of the list is committed, 1 in all, at watermark 0: run it again with the list$"
    fails 2 "k: line 2: .*$said" tamis grow store g k --hex --watermark 5
    { echo z; head -c 70000 /dev/zero | tr '\0' x; } >long
    fails 2 "long: line 2: longer than 65536 bytes.*; segment 'g': the first 1 key of the list is committed, 2 in all" \
        tamis grow store g long -q
    printf '\1\0\0\0b\3\0\0\0ab' >cut
    fails 2 "cut: key 2: .*; segment 'g': the first 1 key of the list is committed, 3 in all" \
        tamis grow store g cut --binary
    reports 2 '[1,3,0,true,true]' grow store g cut --binary --watermark 5
    tells HIT tamis probe store a
    tells '"watermark": 0' tamis stat store g --json
}

@test "--json: the keys that are in, after any end" {
    ok tamis init store
    seq 100 >k
    ok tamis grow store g k --watermark 3
    hold_writer $'held\nINT' --watermark 9 --json
    end_writer INT
    [ "$status" -eq 130 ]
    [ "$(jq -c '[.segment, .keys_read, .keys, .watermark, .interrupted, .committed]' .out)" = '["g",2,102,3,true,true]' ]
    grep -qx "tamis: store: segment 'g': interrupted: the first 2 keys of the list are committed, 102 in all, at watermark 3: run it again with the list" .err
    # A full disk: the keys cannot be synced, and are not acknowledged.
    told=0
    for n in $(seq 20); do
        ASAN_OPTIONS=detect_leaks=0 capture strace -f -o /dev/null -e trace=fdatasync \
            -e "inject=fdatasync:error=ENOSPC:when=$n" tamis grow store g k --watermark $((n + 9)) --json
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
    ok tamis verify store g --against k
    # Nothing was done: nothing is reported.
    fails 2 "never falls" tamis grow store g k --watermark 1 --json
    [ -z "$output" ]
}

# It is not dropped again: another process may have committed to it meanwhile.
@test "a broken key list for a new segment: it stays, with nothing acknowledged" {
    ok tamis init store
    { seq 1000 1999 | sed 's/../3&3/g'; echo xx; } >k
    fails 2 "k: line 1001: not an even" tamis grow store g k --hex --watermark 9
    tells '"watermark": 0' tamis stat store g --json
    ok tamis verify store
    ok tamis grow store g /dev/null --empty --watermark 10
}

@test "--bind and --rank of a segment that exists: the same, or refused" {
    ok tamis init store
    ok tamis grow store g /dev/null --empty --bind c0ffee --rank 7
    ok tamis grow store g /dev/null --empty --bind c0ffee --rank 7
    ok tamis grow store g /dev/null --empty
    echo k >k
    fails 3 "'g' is bound to c0ffee: leave out --bind" tamis grow store g k --bind c0ff
    fails 3 "'g' is bound to c0ffee" tamis grow store g k --bind c0ffef
    fails 2 "'g' has --rank 7: leave it out" tamis grow store g k --rank 6
    ok tamis grow store h /dev/null --empty
    fails 3 "'h' is bound to nothing" tamis grow store h k --bind c0
    ok tamis grow store h /dev/null --empty --rank 0
    tells ABSENT tamis probe store k
}

@test "a filter that cannot grow: status 4, and the keys are in" {
    ok tamis init store --n0 50000
    seq 100000 >k
    fails 4 "segment 'g' could not grow: all 100000 keys of the list are committed, but the error is [0-9.]*%, and 1% wanted: make room and build" \
        bash -c 'ulimit -f 200; tamis grow store g k --watermark 7'
    capture bash -c 'ulimit -f 200; tamis grow store g k --json'
    [ "$status" -eq 4 ] && [ "$(jq -c '[.keys_read, .interrupted, .committed, .over_target]' <<<"$output")" = '[100000,false,true,true]' ] || explain 4
    tells '"watermark": 7' tamis stat store g --json
    tells ": 0 lost" tamis verify store g --against k
}

@test "a filter that cannot grow is over its target only if its error is" {
    ok tamis init store
    seq 53000 >k # the first stage is for 50000
    fails 4 "'g' could not grow: .*the error is 0[0-9.]*%, and 1% wanted: make room before" \
        bash -c 'ulimit -f 200; tamis grow store g k'
    for c in "stat store" "stat store g" "file show $(filter_of g)"; do
        ok tamis $c
        ! [[ $output =~ (over their target|OVER) ]] || explain "on target"
    done
    tells '"over_target": 0,' tamis stat store g --json
    prints '"over_target": false,'
    run bash -c 'ulimit -f 200; seq 70000 200000 | tamis grow store g'
    tells ' 1 over their target error' tamis stat store g
    prints ': OVER TARGET'
    tells '"over_target": true,' tamis stat store g --json
}

@test "a signal to end: what is in is committed, and said" {
    ok tamis init store
    for signal in INT TERM HUP; do
        hold_writer $'held\n'$signal --watermark 9
        end_writer $signal
        [ "$status" -gt 128 ]
        grep -qx "tamis: store: segment 'g': interrupted: the first 2 keys of the list are committed, . in all, at watermark 0: run it again with the list" .err || explain "$(cat .err)"
        [ ! -s .out ]
        tells 'growing, no writer' tamis stat store g
        prints 'watermark +0'
    done
}

@test "a signal before the first key: one line, and a segment only if that is said" {
    seq 10 >keys
    n_none=0 n_made=0
    for call in openat flock pwrite64; do
        for n in $(seq 99); do
            rm -rf store
            tamis init store
            by INT $call "$n" tamis grow store m1 keys
            [ "$end" -ne 0 ] || break
            [ "$end" -eq 130 ] || explain "130, not $end: $call $n"
            # Before the command knows its arguments nothing can be said, nor is anything made.
            if [ ! -s .err ]; then
                [ "$call" = openat ] && ! grep -q '"store' .trace ||
                    explain "a line: $call $n"
                [ -z "$(tamis ls store)" ] || explain "none is made: $call $n"
            elif grep -qx "tamis: store: segment 'm1': interrupted: no key of the list is committed: run it again with the list" .err; then
                n_none=$((n_none + 1))
                [ -z "$(tamis ls store)" ] || explain "none is made: $call $n"
            else
                n_made=$((n_made + 1))
                grep -qEx "tamis: store: segment 'm1': interrupted: (it was made, and no key is in|the first [0-9]+ keys of the list are committed, .*): run it again with the list" .err ||
                    explain "$call $n: $(cat .err)"
                [ "$(tamis ls store --names)" = m1 ]
            fi
        done
    done
    [ "$n_none" -gt 3 ] && [ "$n_made" -gt 3 ] || explain "$n_none not made, $n_made made"
}

@test "two writers: the second is told who has it" {
    ok tamis init store
    hold_writer
    fails 6 "^tamis: .*$pid.*: try again" tamis grow store g /dev/null
    fails 6 "$pid" tamis seal store g
    # Readers, and writers of other segments, go on.
    tells HIT tamis probe store held
    ok tamis grow store h /dev/null --empty
    end_writer
    [ "$status" -eq 0 ]
    ok tamis grow store g /dev/null --empty
}

@test "while a writer has it, a segment is neither dropped nor replaced" {
    make_store
    hold_writer
    echo x >k
    fails 6 "segment '?g'?: .*process $pid.*: try again" tamis drop store one g
    fails 6 "segment '?g'?: .*process $pid.*: try again" tamis build store g k --replaces g
    fails 6 "process $pid" tamis build store new k --replaces one --replaces g
    ok tamis file build f.tamis k --store store
    fails 6 "process $pid" tamis attach store g f.tamis --replaces g
    holds 3
    printf 'more\n' >&7
    end_writer
    [ "$status" -eq 0 ]
    printf 'held\nmore\n' >k
    tells "checked 2 keys in 1 segment: 0 lost" tamis verify store g --against k
    ok tamis drop store g
}

@test "seal: all names are looked at before any is sealed" {
    make_store
    ok tamis build store zero --bare
    echo x | tamis grow store g --watermark 5
    echo y | tamis grow store h --watermark 3
    fails 5 "no segment 'nosuch'" tamis seal store g nosuch
    fails 2 "'one' is sealed" tamis seal store g one
    fails 2 "'zero' is registered without a filter" tamis seal store g zero
    fails 2 "'g' is at watermark 5: --watermark never falls" tamis seal store h g --watermark 4
    fails 2 "'g' is named twice" tamis seal store g h g
    ok tamis ls store g h
    [[ ${lines[0]} =~ ^growing && ${lines[1]} =~ ^growing ]]
    ok tamis seal store g h --watermark 5
    ok tamis ls store g h
    [[ ${lines[0]} =~ ^sealed && ${lines[1]} =~ ^sealed ]]
}

@test "a writer that is killed: its lock is free, its keys are in" {
    ok tamis init store --n0 10
    seq 100 >k
    ok tamis grow store g k --watermark 3
    hold_writer
    tells "a writer has it or died" tamis stat store g
    end_writer KILL
    is_known held
    echo more | tamis grow store g --watermark 4
    tells "no writer" tamis stat store g
    tells ": 0 lost" tamis verify store g --against k
    is_known held
}

@test "a damaged page of a growing filter" {
    ok tamis init store
    seq 60000 >k
    ok tamis grow store g k
    file=$(filter_of g)
    at=$(tamis file show "$file" --json | grep -A6 '"stage A.0"' | grep -A4 '"offset",' |
        sed -n 's/.*"value": \([0-9]*\),*/\1/p')
    dd if=/dev/zero of="$file" bs=4096 seek=$((at / 4096)) count=1 conv=notrunc status=none
    tells "absent_keys +0" tamis probe store --keys k --count
    fails 3 "$file: .*offset $at" tamis verify store
    fails 3 "damaged page" tamis seal store g
    tells ": 0 lost" tamis verify store g --against k
}

@test "a torn commit record: the other one serves" {
    ok tamis init store
    seq 1000 >k
    ok tamis grow store g k
    file=$(filter_of g)
    for at in 4200 8300; do
        flip "$file" $at
        fails 3 "$file: .*torn .*the other one serves" tamis verify store g --against k
        prints ": 0 lost"
        echo more | tamis grow store g
        ok tamis verify store g --against k
    done
    flip "$file" 4200
    flip "$file" 8300
    tells $'500500\tg\tUNREADABLE' tamis probe store 500500
    fails 3 "$file" tamis verify store
    fails 3 "$file" tamis grow store g k
}

@test "a grow that waits for its first key keeps no other writer out" {
    tamis init store
    echo a | tamis grow store g -q
    mkfifo pipe
    for list in pipe -; do
        if [ $list = pipe ]; then
            tamis grow store g pipe -q 3>&- &
        else
            tamis grow store g - -q <pipe 3>&- &
            exec 7>pipe
        fi
        pid=$!
        soon waits_with $pid pipe
        ok tamis grow store g <(echo "meanwhile $list") -q
        [ $list = - ] || exec 7>pipe
        echo "late $list" >&7
        exec 7>&-
        wait $pid
        tells HIT tamis probe store "late $list"
    done
}
