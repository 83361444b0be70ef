# Filters and stores made by hand to hurt, their checksums right (fuzz/hurt.c): one line
# that says what is wrong and where, and an exit status; never a crash, never a key lost.
load ../common

HURT=$(dirname "$TAMIS")/fuzz/hurt

# refused PATTERN: every way to read f.tamis says so, and exits 3.
refused() {
    fails 3 "^tamis: f.tamis: $1" "$TAMIS" file show f.tamis
    [ "${#lines[@]}" -gt 20 ] # the fields are printed all the same
    fails 3 "^tamis: f.tamis: $1" "$TAMIS" file verify f.tamis
    fails 3 "^tamis: f.tamis: $1" "$TAMIS" file verify f.tamis --against keys
    fails 3 "^tamis: f.tamis: $1" "$TAMIS" file probe f.tamis 1
    fails 3 "^tamis: f.tamis: $1" "$TAMIS" file probe f.tamis --quiet 1
}

# The commit record is at 2048, its first stage at 2048 + 248 = 2296.
@test "geometries that no memory holds" {
    make_file
    cp f.tamis good
    "$HURT" f.tamis 2376=0000000000000010 # n_blocks: 2^60
    refused "stage.n_blocks: .*out of range .offset 2376"
    cp good f.tamis
    "$HURT" f.tamis 2376=0000000000000000
    refused "stage.n_blocks: .*out of range .offset 2376"
    cp good f.tamis
    "$HURT" f.tamis 2376=0000000001000000 2304=0000000040000000 2344=0010000000000000
    refused "stage.offset: shorter than it says .offset 2296"
    cp good f.tamis
    "$HURT" f.tamis 2392=ff # lanes
    refused "stage.lanes: .*out of range .offset 2392"
    cp good f.tamis
    "$HURT" f.tamis 2304=00f0ffffffffffff
    refused "stage.length: .*out of range .offset 2304"
}

@test "stages that are not there, or lie over each other" {
    make_file
    cp f.tamis good
    "$HURT" f.tamis 2139=00
    refused "n_stages: .*out of range .offset 2139"
    cp good f.tamis
    "$HURT" f.tamis 2139=ff
    refused "n_stages: .*out of range .offset 2139"
    cp good f.tamis
    "$HURT" f.tamis 2296=00f0ffffffffffff
    refused "stage.offset: shorter than it says .offset 2296"
    cp good f.tamis
    "$HURT" f.tamis 2296=0000000000000000
    refused "stage.offset: .*out of range .offset 2296"
    cp good f.tamis
    "$HURT" f.tamis 2328=000000000000f87f # its error: NaN
    refused "stage.target_error: .*out of range .offset 2328"
    cp good f.tamis
    "$HURT" f.tamis 88=000000000000f87f
    refused "target_error: .*out of range .offset 88"
}

@test "things in the place of a filter or a catalog" {
    make_store
    file=$(echo store/filters/*.tamis | cut -d' ' -f1)
    mv "$file" moved.tamis
    ln -s "$PWD/moved.tamis" "$file"
    ok "$TAMIS" probe store a c
    prints $'^a\t(one|two)\t(HIT|UNREADABLE)'
    prints UNREADABLE
    fails 3 "symbolic link" "$TAMIS" verify store
    rm "$file"
    mkfifo "$file"
    ok timeout 60 "$TAMIS" probe store a c
    prints UNREADABLE
    fails 3 "not a regular file" timeout 60 "$TAMIS" verify store
    rm "$file"
    ln moved.tamis "$file" # a hard link is the file
    ok "$TAMIS" verify store
    ok "$TAMIS" probe store a c
    ! [[ $output =~ UNREADABLE ]] || explain "a hard link is read"
    echo precious >victim
    ln -sf "$PWD/victim" store/catalog.lmdb-lock
    fails 3 "catalog.lmdb-lock is not a regular file" "$TAMIS" ls store
    [ "$(cat victim)" = precious ]
}

@test "names like paths" {
    "$TAMIS" init store
    for name in ../x /etc/passwd . .. 'a b' $'tab\there'; do
        echo "$name" | "$TAMIS" build store "$name"
        ok "$TAMIS" probe store "$name" --segment "$name"
        prints $'\tHIT$'
    done
    ok "$TAMIS" ls store
    [ "${#lines[@]}" -ge 6 ]
    [ "$(ls store/filters | grep -cvE '^[0-9a-f]{32}[.]tamis$')" -eq 0 ]
    [ ! -e x ]
    [ ! -e store/x ]
    [ ! -e store/filters/x ]
}
