# A file that cannot be read or written is no damage: the command exits with 4, and tells
# nobody to build anything anew.
load ../common

# plain PATTERN COMMAND...: fails with 4 and the pattern, and without a word of damage.
plain() {
    fails 4 "$@"
    ! [[ $stderr$output =~ damage|anew|lost ]] || explain "no word of damage"
}

# A store that anybody may change, on a path that they can reach.
open_store() {
    make_store
    chmod -R a+rwX . store
    chmod 600 store/filters/*
}

# others COMMAND...: as somebody who is not the owner of the files.
others() {
    setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}

# Leaves the growing filter of segment g as a writer that died would.
dead_writer() {
    seq 100 | tamis grow store g
    hold_writer
    end_writer KILL
}

@test "filters that this user may not read" {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    open_store
    tree=$(ls -R store)
    plain "Permission denied: run it as a user with permission" others tamis verify store
    prints $'^one\tunreadable\topening the filter: Permission denied'
    plain "filters/.*: left alone: Permission denied .and 1 more.: run it as" others tamis repair store
    prints 'nothing that repair can mend: 2 segments'
    [ "$tree" = "$(ls -R store)" ]
    fails 4 "Permission denied" others tamis repair store --dry-run --json
    prints '"error": "Permission denied"'
    prints '"damage": false'
    prints '"unread": 2'
    plain "left out.*Permission denied .and 1 more.: run it as" others tamis backup store copy
    prints '2 segments, 0 files'
    chmod 0 keys 2>/dev/null || install -m 0 /dev/null keys
    plain "keys: .*Permission denied: run it as" others tamis build store new keys
}

@test "a list that this user may not read" {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    tamis init store
    seq 5000 | tamis build store s --list
    chmod -R a+rwX . store
    chmod 600 "$(ls -S store/filters/* | head -n 1)"
    plain "segment 's': its list: .*Permission denied: run it as a user with permission" \
        others tamis verify store
    prints $'s\tunreadable\tits list: .*Permission denied'
    plain "left alone: Permission denied: run it as" others tamis repair store
    ok tamis verify store
}

@test "a pack, or its tombstones, that this user may not read" {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    make_store
    tamis pack store -q
    chmod -R a+rwX . store
    for file in store/filters/*.tamis store/filters/*.dead; do
        chmod 600 "$file"
        plain "Permission denied: run it as a user with permission" others tamis verify store
        prints $'^(one|-)\tunreadable\t.*this pack: Permission denied'
        fails 4 "2 filters unreadable, 0 lost" others tamis stat store
        plain "Permission denied: run it as" others tamis stat store --prometheus
        [ -z "$output" ] || explain "no metrics"
        ok others tamis probe store a
        [ "$(cut -f 3 <<<"$output" | sort -u)" = UNREADABLE ] || explain "UNREADABLE"
        for command in "union store both one two" "compare store one two" \
            "pack store --repack" "unpack store" "unpack store one" "repair store"; do
            plain "Permission denied: run it as" others tamis $command
        done
        chmod 644 "$file"
    done
    ok tamis verify store
}

@test "damage is said even if other filters cannot be read" {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    open_store
    flip "$(filter_of two)" 5000
    chmod 644 "$(filter_of two)"
    fails 3 "damage was found" others tamis repair store --dry-run
    prints $'noted\tone\t.*Permission denied'
    prints $'quarantined\ttwo\t'
}

@test "remains of a dead writer, in a file that may not be written" {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    tamis init store
    dead_writer
    chmod -R a+rwX . store
    chmod 444 "$(filter_of g)"
    plain "left unfinished: .*Permission denied: run it as" others tamis repair store --dry-run
    prints '^noted'
    plain "left unfinished: .*Permission denied: run it as" others tamis repair store
    prints '^noted'
    tells '1 finished' tamis repair store
}

@test "a limit of file sizes, a limit of open files" {
    tamis init store
    dead_writer
    limited() { (ulimit -f 80 && "$@"); }
    few() { (ulimit -n "$1" && shift && "$@"); }
    plain "left unfinished: .*File too large: raise the limit" limited tamis repair store
    ok tamis repair store
    for n in 8 9 10 11 12; do
        capture few "$n" tamis verify store
        [[ $status =~ ^(0|4)$ ]] && ! [[ $stderr$output =~ damage|anew|lost ]] ||
            explain "no damage, $n descriptors"
        capture few "$n" tamis repair store
        [[ $status =~ ^(0|4)$ ]] && ! [[ $stderr$output =~ damage|anew|lost ]] ||
            explain "no damage, $n descriptors"
    done
}

@test "something else in the place of a filter" {
    make_store
    file=$(filter_of one)
    mv "$file" moved.tamis
    for make in "ln -s $PWD/moved.tamis" mkfifo mkdir; do
        $make "$file"
        fails 3 "put its own file in its place" timeout 60 tamis verify store
        prints $'^one\tunreadable\t'
        ! [[ $stderr =~ "Invalid argument" ]] || explain "$make"
        tells $'a\tone\tUNREADABLE' timeout 60 tamis probe store a
        fails 3 "left alone: not a regular file: put its own file" timeout 60 tamis repair store
        ! [[ $stderr =~ damage ]] || explain "no word of damage: $make"
        rm -d "$file"
    done
    mv moved.tamis "$file"
    ok tamis verify store
}
