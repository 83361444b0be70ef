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

# ends SIGNAL N COMMAND...: at its N-th write the signal ends it. Nothing is said, and the files
# are those of `before`.
ends() {
    by "$1" pwrite64 "$2" tamis "${@:3}"
    [ "$end" -eq $((128 + $(kill -l "$1"))) ] && [ ! -s .out ] && [ ! -s .err ] || explain "$1, not $end: $*"
    files | diff before - || explain "files as before: $*"
}

files() {
    find . -type f ! -name '*-lock' ! -name '.[oet]*' ! -name before | sort
}

# As they write the first or the last bytes of their first file.
@test "every signal that people, shells and limits send is one that ends" {
    build_of a=50000 b=30000..60000 --list
    for f in a b; do tamis file build $f.tamis $f -q --seed 0000000000000001; done
    seq 100 | tee c >d
    tamis init packed
    tamis build packed --each c d --pack -q
    files >before
    for signal in INT TERM HUP QUIT ALRM USR1 USR2 XCPU PIPE; do
        ends $signal 1 build store x a --list -q --jobs 1
        ends $signal 1 file build f a -q --jobs 1
    done
    while read -r n command; do
        for signal in INT TERM; do ends $signal "$n" $command </dev/null; done
    done <<'END'
1 file union f a.tamis b.tamis
1 file intersect f a.tamis b.tamis
1 file fold f a.tamis --by 1
3 build store x a --list -q --jobs 1
1 build store --each a b --replaces a --replaces b -q --jobs 1
1 build store a --from-list --fpr 0.1% -q --jobs 1
1 merge store ab a b --replaces
4 merge store ab a b --replaces
1 fold store c a --fpr 5%
1 unpack packed -q
1 backup store copy
END
    ok tamis verify store
    # One that is ignored changes nothing.
    ok bash -c 'trap "" HUP; ASAN_OPTIONS=detect_leaks=0 exec strace -qq -o /dev/null -e trace=pwrite64 \
        -e inject=pwrite64:signal=HUP:when=1 tamis file union out a.tamis b.tamis'
    ok tamis file verify out
}

@test "plan --apply keeps the edits that are done, and no other file" {
    build_of a=50000 b=30000..60000 --list
    local plan=(plan store --bytes 240K --apply)
    files >before
    for when in 1 2; do ends INT $when "${plan[@]}"; done # from lists
    tamis build store big a --fpr 1e-6 -q
    files >before
    for when in 1 2; do ends TERM $when "${plan[@]}"; done # a fold
    # In the commit of the fold, then in the edit behind it.
    cp -a store kept
    for when in 4 6; do
        find store/filters | sort >before
        by INT pwrite64 $when tamis "${plan[@]}"
        [ "$end" -eq 130 ] && [[ $(cat .out) = "shrunk   big: "* ]] || explain 130
        find store/filters | sort >after
        [ "$(wc -l <after)" -eq "$(wc -l <before)" ]
        [ "$(comm -12 before after | wc -l)" -eq $(($(wc -l <before) - 1)) ]
        [ "$(tamis ls store --json | jq -c 'map(.error == 1e-6)')" = '[false,false,false]' ]
        tamis verify store
        rm -r store
        cp -a kept store
    done
}

# So does timeout(1), to its child and then to the group.
@test "a signal that comes again at once leaves no unfinished file" {
    build_of a=1000 --list
    for command in "build store x a --list -q" "merge store m a" "file build f.tamis a -q" "backup store copy"; do
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
