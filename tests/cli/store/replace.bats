# A segment's filter is built anew in the place of its own, and the process dies: before
# each system call that could make a difference. Whatever is listed then has its keys.
load ../common

# The names of all segments, and the filter of the first, a.
listed() {
    tamis ls store --json | jq -r '"\(map(.segment)) \(.[0].uuid)"'
}

# whole KEYFILE: all of its keys are in segment a, and its filter is sound.
whole() {
    ok tamis verify store a --against "$1" && prints ': 0 lost' &&
        ok tamis probe store --segment a --keys "$1" --count &&
        prints 'absent_keys  0'
}

# rebuild SYSCALL N: from the keys that are not those listed, killed before the N-th one.
# $end is 0 if there are fewer. The filter is the old one then, or the new one, and whole;
# $now is what is listed.
rebuild() {
    local before=$now other
    other=$([ "$keys" = even ] && echo odd || echo even)
    by KILL "$1" "$2" tamis build store a "$other" --replaces a -j 1
    [ "$end" -eq 0 ] || [ "$end" -eq 137 ] || explain "0 or 137: $(cat .err)"
    now=$(listed)
    if [ "$now" != "$before" ]; then
        keys=$other
        [ "$end" -eq 0 ] || n_new=$((n_new + 1))
    else
        n_old=$((n_old + 1))
        [ "$end" -ne 0 ] || explain "another filter"
    fi
    whole "$keys" || explain "killed before $1 number $2: whole"
    [[ $now == '["a","b"] '* ]]
}

@test "kill -9 at any step of a replacement: the old filter or the new one" {
    tamis init store
    seq 2 2 2000 >even
    seq 1 2 1999 >odd
    keys=odd n_old=0 n_new=0
    tamis build store a odd
    tamis build store b even
    now=$(listed)
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
    ok tamis build store a even --replaces a
    [ "$(find store/filters -type f | wc -l)" -eq 2 ]
    ok tamis verify store
}
