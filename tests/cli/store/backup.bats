# backup
load ../common

@test "the copy is the store" {
    make_store
    seq 10 19 | tamis grow store g
    tells '^3 segments, 3 files, [0-9]+ bytes$' tamis backup store copy
    diff -r store/filters copy/filters
    [ "$(ls copy)" = $'catalog.lmdb\nfilters' ]
    ok tamis verify copy
    tells $'a\tone\tHIT' tamis probe copy a 12 nope
    prints $'12\tg\tHIT'
    prints $'nope\t-\tABSENT'
    [ "$(tamis ls store)" = "$(tamis ls copy)" ]
    seq 20 29 | ok tamis grow copy g
    tells 'nothing to do' tamis repair copy
}

@test "names that are taken, and names that cannot be made" {
    make_store
    mkdir full
    touch full/file file
    fails 2 "something is there already: a backup makes its own" tamis backup store full
    fails 2 "already" tamis backup store file
    fails 2 "already" tamis backup store store
    fails 2 "something is there already" tamis backup store /
    fails 4 "No such" tamis backup store none/copy
    fails 5 "no such directory" tamis backup none copy
    fails 2 "too few" tamis backup store
    fails 2 "DIR is a path" tamis backup store ''
    [ "$(ls)" = $'file\nfull\nstore' ]
    [ "$(ls full)" = file ]
}

@test "into the store itself" {
    make_store
    ln -s store/filters link
    tree=$(ls -R store)
    for to in store/in store/filters/in/ ./store/../store/in link/in; do
        fails 2 "^tamis: $to: inside the store itself: name a directory elsewhere$" tamis backup store "$to"
    done
    fails 2 "inside the store" bash -c 'cd store && tamis backup . in'
    [ "$tree" = "$(ls -R store)" ]
    ok tamis backup store store-copy
    ok tamis backup store/ ./store.2/
}

@test "damage is told, and is damage in the copy" {
    make_store
    flip "$(filter_of one)" 5000
    fails 3 "copied, but 1 file damaged in it and 0 files left out" tamis backup store copy
    prints $'^noted\tone\tfilters/.*pages fail their check: copied as they are'
    exits 3 tamis verify copy
    prints $'one\tdamaged'
    rm "$(filter_of two)"
    fails 3 "1 file left out" tamis backup store copy2
    prints $'noted\ttwo\tfilters/.*left out'
    tells $'nope\ttwo\tNO_FILTER' tamis probe copy2 nope
    capture tamis backup store copy3 --json
    prints '"left_out": 1'
    prints '"segment": "one"'
}

@test "a finding of a list says that it is the list" {
    build_of s=5000 --list
    list=$(list_of s)
    flip "$list" 9000
    fails 3 "copied, but 1 file damaged in it" tamis backup store copy
    prints $'^noted\ts\tfilters/'"${list##*/}"$'\tits list: pages fail their check: copied as they are'
    rm "$list"
    fails 3 "copied, but 0 files damaged in it and 1 file left out: " tamis backup store copy2
    prints $'\tits list: left out, its segment is without a list there: the file is missing'
}
