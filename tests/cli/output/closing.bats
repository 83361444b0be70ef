# The line that ends build, grow and drop; names that are taken.
load ../common

# says LINE COMMAND...: status 0, that line on stderr, and nothing on stdout.
says() {
    local line=$1
    shift
    capture "$@"
    [ "$status" -eq 0 ] && [ -z "$output" ] && [[ $stderr =~ ^$line$ ]] || explain "$line"
}

# silent COMMAND...: nothing at all.
silent() {
    capture "$@"
    [ "$status" -eq 0 ] && [ -z "$output" ] && [ -z "$stderr" ] || explain "silence"
}

@test "results: a line on stderr" {
    ok tamis init store
    seq 1000 >k
    seq 2 >l
    says "built segment 'one': 1000 keys, [0-9.]+ KiB, error 1%" tamis build store one k
    says "built 2 segments: 1002 keys, [0-9.]+ KiB, error 0.1% at most" \
        tamis build store --each k l --fpr 0.1%
    says "listed segment 'b.x5cre', without a filter" tamis build store 'b\re' --bare
    says "added 2 keys to segment 'g': 2 in all, [0-9.]+ KiB, error [0-9.e-]+%, 1% wanted, watermark 0" \
        tamis grow store g l
    says "added 1000 keys to segment 'g': 100[01] in all, .*, watermark 9" tamis grow store g k --watermark 9
    says "built f.tamis: 1000 keys, [0-9.]+ KiB, error 1%" tamis file build f.tamis k
    says "dropped segment 'one': 1000 keys, [0-9.]+ KiB, error 1%" tamis drop store one
    says "dropped segment 'b.x5cre', without a filter" tamis drop store 'b\re'
    says "dropped 2 segments: 1002 keys, [0-9.]+ KiB, error 0.1% at most" tamis drop store k l
}

@test "--quiet, and --json" {
    ok tamis init store
    seq 1000 >k
    silent tamis build store one k -q
    silent tamis grow store g k --quiet
    silent tamis file build f.tamis k -q
    silent tamis drop store one -q
    capture tamis build store one k --json
    [ "$status" -eq 0 ] && [ -z "$stderr" ] || explain 0
    [ "$(jq -c '[.keys, (.segments | length), .segments[0].segment, .segments[0].state]' <<<"$output")" = \
        '[1000,1,"one","sealed"]' ]
    capture tamis grow store g k --json --watermark 3
    [ "$status" -eq 0 ] && [ -z "$stderr" ] || explain 0
    [ "$(jq -c '[.segment, .created, .keys_read, .watermark, .over_target]' <<<"$output")" = \
        '["g",false,1000,3,false]' ]
    capture tamis drop store one g --json
    [ "$status" -eq 0 ] && [ -z "$stderr" ] || explain 0
    [ "$(jq -c '[.segments[].segment]' <<<"$output")" = '["one","g"]' ]
    gives '' tamis ls store
}

# The list never ends: who read it all would not come back.
@test "a name that is taken is refused before a key is read" {
    make_store
    make_file
    tamis build store k3 keys
    for c in "build store one -" "file build f.tamis -"; do
        capture timeout 60 bash -c "yes | tamis $c"
        [ "$status" -eq 2 ] && [[ $stderr =~ exists\ already ]] || explain 2
    done
    mkfifo k1 k2
    fails 2 "segment 'k3' exists already" timeout 60 tamis build store --each k1 k2 k3 -j2
    fails 2 "f.tamis: exists already" tamis file union f.tamis nosuch
    fails 4 "none/f: .*No such file" timeout 60 bash -c "yes | tamis file build none/f"
    ok tamis build store one keys --replaces one
}

@test "a signal during the commit: either nothing is done, or it is done and said" {
    seq 10 >a
    seq 20 >b
    n_done=0 n_not=0
    for call in fdatasync pwrite64; do
        for n in $(seq 99); do
            rm -rf store
            tamis init store
            by INT $call "$n" tamis build store --each a b -j 1
            listed=$(tamis ls store --names)
            case $end,$listed in
            0,$'a\nb') n_done=$((n_done + 1)) ;;
            130,) n_not=$((n_not + 1)) ;;
            *) explain "$call $n: status $end, listed: $listed" ;;
            esac
            [ "$end" -ne 0 ] || grep -q '^built 2 segments: 30 keys' .err || explain "the report"
            # A sync of the commit comes last, or none is left.
            [ "$n" -lt 12 ] || break
        done
    done
    [ "$n_done" -gt 3 ] && [ "$n_not" -gt 1 ] || explain "$n_done done, $n_not not"
    for n in 1 2 3; do
        by INT fdatasync $n tamis drop store a
        [ "$end" -ne 130 ] || [ "$(tamis ls store --names)" = $'a\nb' ] || explain "not dropped"
        [ "$end" -ne 0 ] || ok tamis build store a a
    done
}
