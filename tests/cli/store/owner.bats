# A file in a store is owned and opened to others as the store's directory is.
load ../common

# Makes a store of another user, if we are root. Files that we make then have mode 600.
make_theirs() {
    chmod 755 .
    mkdir -m "$1" store
    [ "$(id -u)" -ne 0 ] || chown 65534:"${2:-65534}" store
    umask 077
    tamis init store
}

# Each file and directory in the store has its owner and group, and 640 or 750.
is_theirs() {
    local whose
    whose=$(stat -c %U:%G store)
    find store -mindepth 1 -printf '%u:%g %y%m %p\n' >found
    ! grep -v "^$whose \(f640\|d750\) " found
}

@test "new files in a store belong to its owner" {
    make_theirs 750
    is_theirs
    for n in 1 2 3 4 5 6 7 8; do seq $n 100 | tamis build store s$n -q --list; done
    seq 9 | tamis build store ribbon -q --kind ribbon
    seq 10 | tamis grow store g -q
    seq 20 | tamis file build f.tamis -q --store store
    [ "$(stat -c %a f.tamis)" = 600 ]
    tamis attach store f f.tamis
    tamis union store u s3 s4
    tamis merge store m s5 s6
    is_theirs
    tamis pack store -q
    tamis unpack store s1 -q
    tamis drop store s2 -q
    is_theirs
    [ "$(find store -name '*.dead' | wc -l)" -eq 1 ]
    seq 10 20 | unprivileged tamis grow store g -q
    echo k | unprivileged tamis build store new -q
    rm store/catalog.lmdb*
    run tamis repair store
    [ -d store/quarantine ]
    tamis repair store --confirm --force
    is_theirs
    echo k | unprivileged tamis build store newer -q
    rm -r store/filters store/catalog.lmdb-lock
    run tamis repair store
    is_theirs
}

@test "in a group that is not the store's a file is as open as it is to others" {
    [ "$(id -u)" -eq 0 ] || skip "only root can make such a store"
    make_theirs 775 12345
    seq 10 | unprivileged tamis build store a -q
    run stat -c '%g %a' "$(filter_of a)"
    [ "$output" = "65534 644" ]
    seq 10 | tamis build store b -q
    run stat -c '%u:%g %a' "$(filter_of b)"
    [ "$output" = "65534:12345 664" ]
}
