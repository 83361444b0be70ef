# tamis pack, unpack: the same answers from one file, and what is left, and why.
load ../common

# Segments s1 .. sN of some keys each, in store. With a random seed a key may be in a
# column, by chance, and not in the filter that it was folded from.
seed=0000000000000001
many() {
    tamis init store --seed $seed
    for i in $(seq "$1"); do seq $((i * 1000)) $((i * 1000 + i * 7)) >s$i.keys; done
    tamis build store --each s*.keys --strip .keys
}

answers() {
    tamis probe store 1003 2003 40014 nope | grep -v ABSENT
}

n_files() {
    ls store/filters | wc -l
}

@test "packed and unpacked, a store answers alike" {
    many 40
    answers >before
    ok tamis pack store
    [ "$(n_files)" -eq 2 ]
    answers | diff before -
    ok tamis verify store
    tells "checked [0-9]+ keys in 40 segments: 0 lost" tamis verify store --against-each s*.keys --strip .keys
    tells "^packed " tamis ls store
    tells "packs +1: 40 segments, 0 dead columns" tamis stat store s7
    prints "pack +column [0-9]+ of [0-9]+ in band"
    tells "pack [0-9a-f]{32}" tamis stat store --residency
    tells 'tamis_pack_segments\{store="store",pack="[0-9a-f]{32}"\} 40' tamis stat store --prometheus --check
    ok tamis compare store s7 s8
    ok tamis union store both s7 s8
    ok tamis unpack store s7
    ok tamis unpack store
    answers | diff before -
    [ "$(n_files)" -eq 41 ]
}

@test "segments that are left are counted; named ones are a failure" {
    many 3
    seq 9 | tamis grow store growing
    tamis build store bare --bare
    ok tamis pack store --dry-run
    [[ $stderr == "would pack 3 segments, 0 of them from other packs: "*", free: "*"; left: 1 bare, 1 growing" ]]
    [ "$(n_files)" -eq 4 ]
    fails 2 "of the segments named, 1 growing: 'growing' still grows, and only sealed" tamis pack store growing -q
    fails 2 "of the segments named, 1 bare: 'bare' has no filter" tamis pack store s1 bare -q
    ok tamis pack store
    [[ $stderr == "packed 2 segments, "*"; left: 1 packed before, 1 bare, 1 growing" ]]
    ok tamis pack store
    [[ $stderr == "nothing to pack: 3 packed before, 1 bare, 1 growing" ]]
    fails 2 "1 packed before: 's2' is in a pack already, and --repack" tamis pack store s2 -q
    ok tamis pack store --repack
    [[ $stderr == "packed 3 segments, 3 of them from other packs"* ]]
    fails 2 "segment 'growing' is in no pack" tamis unpack store s1 growing
    fails 5 "no segment 'none'" tamis pack store none
    fails 5 "no segment 'none'" tamis unpack store none
    fails 2 "--auto chooses segments itself: leave out their names" tamis pack store s1 --auto
    fails 2 "leave out --repack" tamis pack store --auto --repack
}

@test "damaged filters are left, and told" {
    many 3
    flip "$(filter_of s2)" 5000
    fails 3 "1 filter damaged, or in missing" tamis pack store -q
    tells "^packed" tamis ls store s1
    fails 3 "pages fail their check" tamis verify store
    poke "$(filter_of s1)" 5000 '\x55\x55\x55\x55\x55\x55\x55\x55'
    fails 3 "1 of its [0-9]+ pages damaged: segments affected: 2 of 2; build these anew" tamis verify store s1
    run tamis verify store s1
    [[ $output == *damaged*"column; 1 of the "*" its rows is damaged"* ]]
    run tamis probe store 1003
    [[ $output == *s1* ]]
}

# In a pack of several bands: s1 and s2 are in another one than s5 to s8, of which there
# are enough not to be larger in a pack.
@test "a damaged page of a pack costs the segments that have rows in it" {
    tamis init store
    seq 1000 1100 >s1.keys
    seq 2000 2110 >s2.keys
    for i in 5 6 7 8; do seq ${i}00000 ${i}50000 >s$i.keys; done
    tamis build store --each s[12].keys --strip .keys --fpr 0.1% -q # of another shape
    tamis build store --each s[5-8].keys --strip .keys -q
    tamis pack store -q
    f=$(tamis ls store s1 --json | jq -r '.[0].file')
    cp "store/$f" good
    # Rows of the largest band come first, the table of columns is the last page.
    poke "store/$f" 5000 '\x55\x55\x55\x55\x55\x55\x55\x55'
    fails 3 "1 of its [0-9]+ pages damaged: segments affected: 4 of 6; build" tamis verify store
    [ "$(cut -f 1,2 <<<"$output" | sort | tr '\t\n' ' ;')" == "- pack;s1 ok;s2 ok;s5 damaged;s6 damaged;s7 damaged;s8 damaged;" ]
    exits 3 tamis verify store s2 s5 --json
    [ "$(jq -c '[.segments[] | .result, .damaged]' <<<"$output")" == '["ok",0,"damaged",1]' ]
    [ "$(jq -c '.packs[] | [.file, .damaged, .segments, .affected]' <<<"$output")" == "[\"$f\",1,6,4]" ]
    [ "$(jq .damaged_segments <<<"$output")" -eq 1 ]
    fails 3 "segments affected" tamis verify store --against-each s*.keys --strip .keys
    [[ $output == *"segments: 0 lost"* ]]
    fails 3 "unpacking segment 's[5-8]': .*: others can be unpacked by their names; 'tamis pack --repack' saves" \
        tamis unpack store
    # As it said: the others move, s5 to s8 are built anew.
    fails 3 "4 filters damaged" tamis pack store --repack --dry-run --json
    jq -c '[.packed, .repacked, .left]' <<<"$output" >dry
    fails 3 "4 filters damaged" tamis pack store --repack --json
    jq -c '[.packed, .repacked, .left]' <<<"$output" | diff dry -
    [[ $(cat dry) == '[2,2,'* ]]
    for i in 5 6 7 8; do tamis build store s$i s$i.keys --replaces s$i -q; done
    ok tamis verify store
    ok tamis pack store --repack -q

    f=$(tamis ls store s1 --json | jq -r '.[0].file')
    cp "store/$f" good
    flip "store/$f" $(($(stat -c %s good) - 4086))
    fails 3 "the names of 6 of its 6 segments are lost: put the pack's files back" tamis verify store
    [ "$(cut -f 1,2 <<<"$output")" == $'-\tpack' ]
    [ "$(tamis verify store --json 2>err | jq -c '[.segments[].segment] | unique')" = '[null]' ]
    fails 3 "6 filters cannot be read" tamis plan store --bytes 1M
    fails 3 "segment 's1': the pack that may have it: damaged: put the pack's files back" tamis stat store s1
    fails 3 "table of columns fails its check" tamis unpack store
    fails 3 "6 filters damaged" tamis pack store --repack
    fails 3 "cannot tell whether it has segment 'new'" tamis build store new s1.keys
    # Its row is good, and its range is lost. Other segments may seem to have it.
    [ "$(tamis probe store 500000 | uniq)" = $'500000\t-\tDAMAGED' ]
    [ "$(tamis probe store 500000 --json | jq -c '.candidates | unique')" = '[{"segment":null,"reason":"DAMAGED"}]' ]
    cp good "store/$f"
    ok tamis pack store --repack -q
    tells "in 6 segments: 0 lost" tamis verify store --against-each s*.keys --strip .keys
}

# A key that is not in the segment is told, from the rows and from an unconfirmed list.
@test "columns are asked for lists of keys, also while the list is not confirmed" {
    many 3
    tamis pack store -q
    echo nobody >>s2.keys
    fails 3 "1 key not in the filters" tamis verify store --against-each s*.keys --strip .keys
    rm store/catalog.lmdb*
    run tamis repair store
    fails 3 "1 key not in the filters" tamis verify store --against-each s*.keys --strip .keys
}

@test "segments are built into a pack at once" {
    many 30
    answers >before
    tamis init packed --seed $seed
    ok tamis build packed --each s*.keys --strip .keys --pack
    [[ $stderr == "packed 30 segments: "* ]]
    [ "$(ls packed/filters | wc -l)" -eq 2 ]
    ok tamis verify packed --against-each s*.keys --strip .keys
    prints "checked [0-9]+ keys in 30 segments: 0 lost"
    tamis probe packed 1003 2003 40014 nope | grep -v ABSENT | cut -f 2 >got
    cut -f 2 before | diff - got
    # Again, in one edit, and beside others.
    ok tamis build packed --each s1.keys s2.keys --strip .keys --replaces s1 --replaces s2 --pack
    [ "$(ls packed/filters | wc -l)" -eq 4 ]
    fails 2 "exists already" tamis build packed --each s4.keys s5.keys --strip .keys --pack -q
    fails 2 "no key is in this list" tamis build packed --each s6.keys /dev/null --strip .keys --pack -q --replaces s6
    ok tamis verify packed --against-each s*.keys --strip .keys
    prints "checked [0-9]+ keys in 30 segments: 0 lost"
    fails 2 "pack is for --each" tamis build packed new s1.keys --pack
    fails 2 "leave out --check" tamis build packed --each s1.keys --pack --check
}

@test "a ribbon is left, and said to be one" {
    tamis init store
    seq 1000 | tamis build store r --kind ribbon -q
    ok tamis pack store
    [ "$stderr" = "nothing to pack: 1 of kind ribbon" ] || explain "its kind"
}

@test "a filter that would be larger in a pack stays a file, and is counted" {
    tamis init store
    seq 300000 | tamis build store big -q
    seq 10 | tamis build store small -q
    fails 2 "of the segments named, 1 larger in a pack: 'big' would be larger in a pack: pack it with more" tamis pack store big -q
    ok tamis pack store --auto --json
    [ "$(jq -c '[.packed, .left.larger]' <<<"$output")" = '[1,1]' ]
    ok tamis pack store
    [ "$stderr" = "nothing to pack: 1 packed before, 1 larger in a pack" ] || explain "it is named"
}
