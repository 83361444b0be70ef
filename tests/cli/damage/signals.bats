# Signals that end a command: what was done is said, and no unfinished file is left.
load ../common

leaves_nothing() {
    [ -z "$(find . -name '*.tmp')" ] || explain "no unfinished file: $*"
}

@test "repair that is ended says what it did, and the next one goes on" {
    tamis init broken
    for s in a b c; do seq 3000 >$s; done
    tamis build broken --each a b c --list -q
    for s in a b c; do rm "broken/$(tamis ls broken $s --json | jq -r '.[0].file')"; done
    for signal in INT TERM HUP USR1; do
        for json in "" --json; do
            rm -rf store
            cp -r broken store
            by $signal pwrite64 1 tamis repair store $json
            [ "$end" -eq $((128 + $(kill -l $signal))) ] || explain "$signal, not $end"
            grep -qx 'tamis: store: the repair was interrupted: run it again' .err
            [ "$(wc -l <.err)" -eq 1 ]
            leaves_nothing $signal
            if [ -n "$json" ]; then
                [ "$(jq -c '[.failed, .rebuilt, (.findings | length), .segments, .complete]' .out)" = '[true,1,1,null,null]' ]
            else
                [ "$(grep -c $'^rebuilt\t' .out)" -eq 1 ]
            fi
            fails 3 "dealt with" tamis repair store
            prints ' 2 rebuilt, '
            ok tamis verify store --against-list
        done
    done
    # Where it only reads, the signal ends it at the next file.
    by INT openat2 3 tamis repair store
    [ "$end" -eq 130 ] && [ ! -s .out ] || explain 130
    grep -q 'was interrupted' .err
    # An error that comes with the signal is told, too.
    rm -rf store
    cp -r broken store
    by INT:error=ENOSPC pwrite64 1 tamis repair store
    [ "$end" -eq 130 ] || explain 130
    grep -q '^tamis: store/.*: No space left on device: free some space' .err || explain "$(cat .err)"
    [ "$(wc -l <.err)" -eq 1 ]
    leaves_nothing ENOSPC
    # At its end it is done, and says so.
    for n in 1 4 9 16 25; do
        rm -rf store
        cp -r broken store
        by INT pwrite64 $n tamis repair store
        leaves_nothing $n
        tamis repair store >/dev/null || true
        ok tamis verify store --against-list
    done
}

@test "every signal that people, shells and limits send is one that ends" {
    tamis init store
    seq 1000 >keys
    for signal in INT TERM HUP QUIT ALRM USR1 USR2 XCPU; do
        for command in "build store x keys --list -q" "file build f.tamis keys -q" "backup store copy"; do
            by $signal pwrite64 1 tamis $command
            [ "$end" -gt 128 ] || explain "$signal, not $end: $command"
            leaves_nothing "$signal: $command"
            [ ! -e f.tamis ]
            [ ! -e copy ]
            [ -z "$(tamis ls store)" ]
        done
    done
    leaves_nothing
}

# So does timeout(1), to its child and then to the group.
@test "a signal that comes again at once leaves no unfinished file" {
    tamis init store
    seq 1000 >keys
    tamis build store a keys --list -q
    for command in "build store x keys --list -q" "merge store m a" "file build f.tamis keys -q" "backup store copy"; do
        by TERM pwrite64 1+ tamis $command
        [ "$end" -eq 143 ] || explain "$end: $command"
        leaves_nothing "$command"
    done
}

@test "a signal that comes again later ends the process at once" {
    export ASAN_OPTIONS=detect_leaks=0
    seq 1000 >keys
    # The handler of the first one takes its time.
    end=0
    env --default-signal strace -f -o trace -e trace=pwrite64,prlimit64 -e inject=pwrite64:signal=TERM:when=1+ \
        -e inject=prlimit64:delay_enter=1200000 tamis file build f.tamis keys -q || end=$?
    [ "$end" -eq 143 ] || explain "$end"
    [ -n "$(find . -name '*.tmp')" ]
}
