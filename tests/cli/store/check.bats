# build --check: a filter that memory has spoilt is refused.
load ../common

# flipped COMMAND...: as `fails 3`, with bits of the filter lost in memory as they are first
# written. Address sanitizer's leak check is no friend of ptrace.
flipped() {
    ASAN_OPTIONS=detect_leaks=0 fails 3 "$1: memory changed .*: test this machine's memory, then run it again$" \
        strace -f -qq -o /dev/null -e trace=pwrite64 \
        -e "inject=pwrite64:poke_enter=@arg2=$(printf '%0128d' 0):when=1" "${@:2}"
}

@test "build --check makes the same filter" {
    seq 20000 >keys
    tamis file build a keys --seed 0000000000000001
    ok tamis file build b keys --seed 0000000000000001 --check
    cmp <(tail -c +4097 a) <(tail -c +4097 b)
    tamis init store
    ok tamis build store one keys --check
    cp keys two.keys && cp keys three.keys
    ok tamis build store --each two.keys three.keys --strip .keys --check
    for s in one two three; do
        tells ': 0 lost' tamis verify store $s --against keys
    done
    fails 2 "^tamis: build: --check is for a filter" tamis build store bare --bare --check
}

@test "a filter that changed in memory is refused, and nothing of it stays" {
    seq 1000 | tee two.keys >keys
    flipped f tamis file build f keys --check
    [ "$(ls)" = $'keys\ntwo.keys' ]
    tamis init store
    tamis build store one keys
    files=$(find store/filters)
    flipped store/filters/.*tamis tamis build store one keys --replaces one --check
    flipped store/filters/.*tamis tamis build store --each two.keys keys --check --jobs 2
    [ "$(find store/filters)" = "$files" ]
    [ "$(tamis ls store --names)" = one ]
    tells ': 0 lost' tamis verify store one --against keys
}
