# A process is stopped in its commit: others say for whom they wait, and end by a signal or by
# --wait, with nothing changed. When it goes on, so do they.
load ../common

# stopped COMMAND...: runs it, and stops it in its commit. $holder is its pid.
stopped() {
    rm -f trace pid
    ASAN_OPTIONS=detect_leaks=0 strace -f -o trace -e trace=fdatasync -e inject=fdatasync:signal=STOP:when=1 \
        sh -c 'echo $$ >pid && exec "$@"' sh "$@" 2>stopped.err 3>&- &
    tracer=$!
    soon grep -qs "stopped by SIGSTOP" trace
    holder=$(cat pid)
}

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    tamis init store
    echo y | tee keys >other
    tamis build store --each keys other -q
    for s in a b; do tamis grow store $s keys -q; done
    tamis file build f.tamis keys --store store -q
    stopped tamis build store stopped keys -q
    commands=("build store new keys -q --list" "attach store new f.tamis" "drop store keys -q"
        "grow store new keys -q" "grow store a keys --json" "seal store b" "pack store -q"
        "union store new keys other" "repair store --confirm" "backup store copy" "repair store")
    changing='(changing the catalog|changing or repairing the store)'
    files >before
}

teardown() {
    ! kill -0 "$tracer" 2>/dev/null || kill -KILL "$holder"
}

files() {
    find store copy* -type f 2>/dev/null | sort
}

nothing_left() {
    diff before <(files) || explain "the same files"
    fails 5 "no segment 'new'" tamis ls store new
}

has_ended() {
    ! kill -0 "$1" 2>/dev/null
}

# begin N OPTION COMMAND: in the background. $pid is its pid, N.err has its words.
begin() {
    env --"$2" tamis $3 >/dev/null 2>"$1.err" 3>&- &
    pid=$!
}

says_for_whom() {
    grep -qEx "tamis: waiting: process $holder is $changing" "$1.err"
}

@test "a signal ends the wait, and nothing is left" {
    signals=(QUIT INT HUP TERM INT XCPU ALRM USR1 USR2 TERM INT)
    pids=()
    for i in "${!commands[@]}"; do
        begin "$i" default-signal "${commands[i]}"
        pids+=("$pid")
    done
    for i in "${!commands[@]}"; do
        soon says_for_whom "$i" || explain "a word: ${commands[i]}: $(cat "$i.err")"
        kill -"${signals[i]}" "${pids[i]}"
        soon has_ended "${pids[i]}" || explain "it ends: ${commands[i]}"
        ends_with $((128 + $(kill -l "${signals[i]}"))) "${pids[i]}" || explain "${signals[i]}: ${commands[i]}"
        [ "$(grep -cv 'interrupted: ' "$i.err")" -eq 1 ] || explain "$(cat "$i.err")"
    done
    nothing_left
}

@test "--wait: status 6, and who is in the way" {
    for c in "${commands[@]}"; do
        fails 6 "process $holder is $changing: try again when it is done\$" timeout 60 tamis $c --wait 0
    done
    fails 6 "process $holder is" timeout 60 tamis drop store keys --wait 0.2
    nothing_left
    tamis ls store --wait 0
}

@test "it goes on, and so do they; an ignored signal ends no wait" {
    begin 0 ignore-signal=HUP "${commands[0]}"
    soon says_for_whom 0
    kill -HUP "$pid"
    kill -CONT "$holder"
    wait "$tracer"
    wait "$pid"
    [ "$(wc -l <0.err)" -eq 1 ]
    [ "$(tamis ls store --names | grep -cx 'new\|stopped')" -eq 2 ]
}

@test "init, too" {
    kill -KILL "$holder"
    wait "$tracer" || :
    stopped tamis init second
    fails 6 "process $holder is creating or repairing a store here: try again" timeout 60 tamis init second --wait 0
}
