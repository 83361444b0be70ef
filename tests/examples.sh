#!/bin/sh
# The programs of tools/examples: compiled as each says at its top, run, hurt, and with
# bugs planted that they must notice. $1 is the build directory.
set -u
b=$1
# In memory if it can be: the programs sync a lot.
dir=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) || exit 2
. tests/ok.sh
asan='-g -fsanitize=address,undefined -fno-sanitize-recover=all'

# compile COMPILER SOURCE PROGRAM [FLAG...]: by the command of the example's own comment.
compile() {
    compiler=$1 source=$2 program=$3
    shift 3
    rest=$(sed -n "s,^ \*   cc -Ilib [a-z_]*\.c build/,$b/,p" "$source")
    [ -n "$rest" ] || { echo "$source does not say how to compile it"; return 1; }
    # shellcheck disable=SC2086
    $compiler -std=c11 -Wall -Wextra -Werror "$@" -Ilib -o "$program" "$source" $rest
}

# The directory that it makes is gone when it ends.
leaves_nothing() {
    strace -f -e trace=mkdir -o "$dir/calls" "$1" || return 1
    made=$(sed -n 's,.* mkdir("\(/tmp/[^"/]*\)".* = 0$,\1,p' "$dir/calls" | head -n 1)
    echo "it made '$made'"
    [ -n "$made" ] && [ ! -e "$made" ]
}

# says PATTERN COMMAND...: it succeeds, and this is among its lines.
says() {
    pattern=$1
    shift
    "$@" >"$dir/said" 2>&1 || { echo "exit $?"; cat "$dir/said"; return 1; }
    cat "$dir/said"
    grep -qE "$pattern" "$dir/said"
}

# Absent keys skip as many reads as the planned error promises, less a fifth.
skips() {
    sed -n 's/^\([0-9]*\) absent keys in \([0-9]*\) segments: \([0-9]*\) .*/\1 \2 \3/p' "$1" |
        awk '{ n++; if ($2 < 2 || $3 < $1 * $2 * (1 - 1.2 * 0.01)) bad = 1 } END { exit bad || n != 1 }'
}

# planted NAME LINE SED: with this change it fails, and says this.
planted() {
    name=$1 line=$2 change=$3
    sed "$change" "tools/examples/$name.c" >"$dir/planted.c"
    cmp -s "$dir/planted.c" "tools/examples/$name.c" && { echo "nothing was planted"; return 1; }
    compile gcc "$dir/planted.c" "$dir/planted" -Wno-error || return 1
    rm -rf "$dir/bad"
    mkdir "$dir/bad"
    "$dir/planted" "$dir/bad" >"$dir/said" 2>&1
    code=$?
    cat "$dir/said"
    echo "exit $code; wanted: $line"
    { [ $code -eq 1 ] || [ $code -eq 2 ]; } && grep -qE "$line" "$dir/said"
}

for source in tools/examples/*.c; do
    example=$(basename "$source" .c)
    ok "$example has at most 260 lines" [ "$(wc -l <"$source")" -le 260 ]
    ok "$example includes <tamis.h> and the C library's headers" \
        sh -c "! grep -n '^#include *\"\|#include <\(lmdb\|xxhash\)' '$source'"
    ok "$example with clang" compile clang "$source" "$dir/$example.clang" -Wconversion -Wshadow
    ok "$example with gcc" compile gcc "$source" "$dir/$example" -O2 -Wconversion -Wshadow
    # shellcheck disable=SC2086
    ok "$example with ASan and UBSan" compile gcc "$source" "$dir/$example.asan" $asan
    ok "$example makes a directory and removes it" leaves_nothing "$dir/$example"
    mkdir "$dir/$example.d1" "$dir/$example.d2"
    ok "$example loses nothing" says '[ ,]0 (keys )?lost' "$dir/$example" "$dir/$example.d1"
    ok "$example, sanitized" says '[ ,]0 (keys )?lost' "$dir/$example.asan" "$dir/$example.d2"
done

# ---- segments with their filters -------------------------------------------------

tree=$dir/lsm_embedded.d1
# No file and no sync but the segments' own, and the manifest's.
one_sync_a_segment() {
    mkdir "$dir/traced"
    strace -e trace=openat,fsync,fdatasync -o "$dir/calls" "$dir/lsm_embedded" "$dir/traced" || return 1
    n_segments=$(grep -c '"segment-[0-9]*", .*O_CREAT' "$dir/calls")
    n_switches=$(grep -c '"MANIFEST.new", .*O_CREAT' "$dir/calls")
    n_files=$(grep -c O_CREAT "$dir/calls")
    echo "$n_segments segments, $n_switches manifests, $n_files files"
    [ "$n_segments" -gt 10 ] && [ "$n_files" -eq $((n_segments + n_switches)) ] &&
        [ "$(grep -c '^fdatasync' "$dir/calls")" -eq "$n_segments" ] &&
        [ "$(grep -c '^fsync' "$dir/calls")" -eq $((3 * n_switches)) ]
}

# hurt PAGE: zeros over this page of every filter; the footer says where it begins.
hurt() {
    for segment in "$tree"/segment-*; do
        offset=$(tail -c 24 "$segment" | od -An -t u8 -j 8 -N 8 | tr -d ' \n')
        dd if=/dev/zero of="$segment" bs=4096 seek=$((offset / 4096 + $1)) count=1 conv=notrunc 2>&1 || return 1
    done
}

ok "lsm_embedded opens what it wrote" says ': 0 lost' "$dir/lsm_embedded" "$tree"
cp "$dir/said" "$dir/whole"
ok "lsm_embedded skips reads" skips "$dir/whole"
ok "lsm_embedded: no file and no sync for filters" one_sync_a_segment
ok "a page of each filter is destroyed" hurt 2
ok "lsm_embedded: then it loses nothing, and reads more" says ' [1-9][0-9]* unsure' "$dir/lsm_embedded" "$tree"
ok "lsm_embedded: no key of it" grep ': 0 lost' "$dir/said"
ok "the head of each filter is destroyed" hurt 0
ok "lsm_embedded: then it goes without" says 'without a filter' "$dir/lsm_embedded" "$tree"
ok "lsm_embedded: and loses nothing" grep ': 0 lost' "$dir/said"

# ---- filters in a store ----------------------------------------------------------

# The same program, with a tenth of the keys.
small() {
    sed 's/BATCH = 20000/BATCH = 2000/; s/N_ABSENT = 200000/N_ABSENT = 20000/' \
        tools/examples/lsm_store.c >"$dir/small.c"
    compile gcc "$dir/small.c" "$dir/small" -O2 && mkdir "$dir/small.d" && "$dir/small" "$dir/small.d"
}

# Killed as it enters the nth call of that name; then run again. 1: it came to its end.
killed_at() {
    rm -rf "$dir/killed"
    cp -a "$dir/small.d" "$dir/killed"
    strace -f -o /dev/null -e "trace=$1" -e "inject=$1:signal=KILL:when=$2" \
        "$dir/small" "$dir/killed" >/dev/null 2>&1
    [ $? -eq 137 ] || return 1
    n_kills=$((n_kills + 1))
    ok "lsm_store killed at $1 $2" says ': 0 lost; then the lists differ in 0' "$dir/small" "$dir/killed"
    grep -q 'at the start the lists differ in [1-9]' "$dir/said" && n_mended=$((n_mended + 1))
    return 0
}

# Its store is not to be had: the engine does not fail, and reads.
store_is_lost() {
    : >"$dir/lsm_store.d2/filters/catalog.lmdb"
    "$dir/lsm_store" "$dir/lsm_store.d2" >"$dir/said" 2>&1
    cat "$dir/said"
    grep 'without filters' "$dir/said" && grep ': 0 lost' "$dir/said" && grep ' 0 reads skipped' "$dir/said"
}

ok "lsm_store goes on where it was" says ': 0 lost' "$dir/lsm_store" "$dir/lsm_store.d1"
ok "lsm_store skips reads" skips "$dir/said"
ok "lsm_store makes filters from lists" grep -q '; [1-9][0-9]* filters made from lists' "$dir/said"
ok "lsm_store with fewer keys" small
n_kills=0 n_mended=0
for call in rename renameat2 unlink unlinkat fsync fdatasync pwrite64; do
    n=1
    while killed_at "$call" "$n"; do
        n=$((n + ${KILLS_APART:-3}))
    done
done
ok "lsm_store was killed at many points" [ "$n_kills" -gt 20 ]
ok "lsm_store: at many of them the lists differed" [ "$n_mended" -gt 5 ]
ok "lsm_store without its store" store_is_lost

# ---- what they must notice -------------------------------------------------------

lost='[ :][1-9][0-9]* lost'
ok "planted: a filter without tombstones" planted lsm_embedded "$lost" \
    's/rc = tamis_builder_add_key(builder, r->key/if (!r->dead) &/'
ok "planted: a filter without its last key" planted lsm_embedded "$lost" \
    's/r < records + footer->n_records/r + 1 < records + footer->n_records/'
ok "planted: a store without tombstones" planted lsm_store "$lost" \
    's/rc = tamis_builder_add_key(/if (!s->records[i].dead) &/'
ok "planted: a compaction forgets one of its inputs" planted lsm_store "$lost" \
    's/from, 2, 0, /from, 1, 0, /'
ok "planted: nothing is dropped" planted lsm_store 'differ in [1-9]' \
    's/rc = tamis_edit_reconcile(.*;/rc = 0;/'
ok "planted: a key is not added" planted many_readers "$lost" \
    's/rc = tamis_writer_add_key(/if (n != 70000) &/'
ok "planted: the list is asked for once" planted many_readers ' 0 of 4 readers have the new' \
    's/\(struct tamis_snapshot \*now\);/\1 = NULL;/
     s/if ((rc = tamis_snapshot_current/if (!now \&\& (rc = tamis_snapshot_current/
     s/^ *tamis_snapshot_release(now);//'
ok "planted: no replay" planted replay "$lost" 's/^    add(writer, info.watermark, log_end);//'
ok "planted: a watermark of what was logged" planted replay "$lost|trimmed too early" \
    's/engine_commit(writer, added)/engine_commit(writer, log_end)/'
ok "planted: a log that is trimmed too early" planted replay 'trimmed too early' \
    's/log_trim(position)/log_trim(log_end)/'

echo "$n_kills kills, 0 lost"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
