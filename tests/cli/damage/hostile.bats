# Filters and stores made by hand to hurt, their checksums right (fuzz/hurt.c): one line
# that says what is wrong and where, and an exit status; never a crash, never a key lost.
load ../common

HURT=$(dirname "$TAMIS")/fuzz/hurt

# refused PATTERN: every way to read f.tamis says so, and exits 3.
refused() {
    fails 3 "^tamis: f.tamis: $1" tamis file show f.tamis
    [ "${#lines[@]}" -gt 20 ] # the fields are printed all the same
    fails 3 "^tamis: f.tamis: $1" tamis file verify f.tamis
    fails 3 "^tamis: f.tamis: $1" tamis file verify f.tamis --against keys
    fails 3 "^tamis: f.tamis: $1" tamis file probe f.tamis 1
    fails 3 "^tamis: f.tamis: $1" tamis file probe f.tamis --quiet 1
}

# The commit record is at 2048, its first stage at 2048 + 248 = 2296.
@test "geometries that no memory holds; stages that are not there, or lie over each other" {
    make_file
    cp f.tamis good
    while IFS='|' read -r bytes said; do
        cp good f.tamis
        "$HURT" f.tamis $bytes
        refused "$said"
    done <<'END'
2376=0000000000000010|stage.n_blocks: .*out of range .offset 2376
2376=0000000001000000 2304=0000000040000000 2344=0010000000000000|stage.offset: shorter than it says .offset 2296
2139=ff|n_stages: .*out of range .offset 2139
88=000000000000f87f|target_error: .*out of range .offset 88
END
}

@test "links to a filter and to a catalog's lock" {
    make_store
    file=$(echo store/filters/*.tamis | cut -d' ' -f1)
    ln "$file" moved.tamis # a hard link is the file
    ok tamis verify store
    ok tamis probe store a c
    ! [[ $output =~ UNREADABLE ]] || explain "a hard link is read"
    echo precious >victim
    ln -sf "$PWD/victim" store/catalog.lmdb-lock
    fails 3 "catalog.lmdb-lock is not a regular file" tamis ls store
    [ "$(cat victim)" = precious ]
}

@test "a filter that was made for another segment" {
    make_store
    "$HURT" "$(echo store/filters/*.tamis | cut -d' ' -f1)" 128=78 # its name: x...
    fails 3 "made for another segment" tamis verify store
    grep -q $'\tok\t' <<<"$output" # the other one
}

@test "names like paths" {
    tamis init store
    for name in ../x /etc/passwd . .. 'a b' $'tab\there'; do
        echo "$name" | tamis build store "$name"
        tells $'\tHIT$' tamis probe store "$name" --segment "$name"
    done
    ok tamis ls store
    [ "${#lines[@]}" -ge 6 ]
    [ "$(ls store/filters | grep -cvE '^[0-9a-f]{32}[.]tamis$')" -eq 0 ]
    [ ! -e x ]
    [ ! -e store/x ]
    [ ! -e store/filters/x ]
}
