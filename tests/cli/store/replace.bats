# A segment's filter is built anew in the place of its own, and the process dies: before
# each system call that could make a difference. Whatever is listed then has its keys.
load ../common

listed() {
    "$TAMIS" ls store a --json | jq -r '.[0].uuid'
}

# whole KEYFILE: all of its keys are in segment a, and its filter is sound.
whole() {
    ok "$TAMIS" verify store a --against "$1" && prints ': 0 lost' &&
        ok "$TAMIS" probe store --segment a --keys "$1" --count &&
        prints 'absent_keys  0'
}

# rebuild SYSCALL N: from the keys that are not those listed, killed before the N-th one.
# $end is 0 if there are fewer. The filter is the old one then, or the new one, and whole.
rebuild() {
    local before now other
    before=$(listed)
    other=$([ "$keys" = even ] && echo odd || echo even)
    end=0
    # shellcheck disable=SC2016
    ASAN_OPTIONS=detect_leaks=0 strace -f -o /dev/null -e "trace=$1" \
        -e "inject=$1:signal=KILL:when=$2" "$TAMIS" build store a "$other" --replaces a -j 1 \
        >/dev/null 2>err || end=$?
    [ "$end" -eq 0 ] || [ "$end" -eq 137 ] || explain "0 or 137: $(cat err)"
    now=$(listed)
    if [ "$now" != "$before" ]; then
        keys=$other
        [ "$end" -eq 0 ] || n_new=$((n_new + 1))
    else
        n_old=$((n_old + 1))
        [ "$end" -ne 0 ] || explain "another filter"
    fi
    whole "$keys" || explain "killed before $1 number $2: whole"
    [ "$("$TAMIS" ls store --names)" = $'a\nb' ]
}

@test "kill -9 at any step of a replacement: the old filter or the new one" {
    "$TAMIS" init store
    seq 2 2 2000 >even
    seq 1 2 1999 >odd
    keys=odd n_old=0 n_new=0
    "$TAMIS" build store a odd
    "$TAMIS" build store b even
    for call in openat openat2 fallocate pwrite64 writev fsync fdatasync renameat2 \
        unlinkat flock fcntl futex exit_group; do
        for n in $(seq 99); do
            rebuild $call "$n"
            [ "$end" -ne 0 ] || break
        done
        [ "$n" -lt 99 ] || explain "to be fewer"
    done
    # Both happened, and the last one swept what the dead had left.
    [ "$n_old" -gt 20 ] && [ "$n_new" -gt 3 ] || explain "$n_old old, $n_new new"
    ok "$TAMIS" build store a even --replaces a
    [ "$(find store/filters -type f | wc -l)" -eq 2 ]
    ok "$TAMIS" verify store
}
