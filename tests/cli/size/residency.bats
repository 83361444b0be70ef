# How much of the filters is in memory: stat --residency, file show --residency.
load ../common

# The pages of a filter of 8 KiB.
SMALL=$(((8191 + $(getconf PAGESIZE)) / $(getconf PAGESIZE)))

# Drops a file from memory, if its file system keeps it elsewhere as well.
cool() {
    dd if="$1" iflag=nocache count=0 status=none
    sync "$1"
    dd if="$1" iflag=nocache count=0 status=none
}

# resident SEGMENT: how many of its pages.
resident() {
    "$TAMIS" stat store "$1" --residency --json |
        sed -n 's/^  "resident": \([0-9]*\),\{0,1\}$/\1/p'
}

@test "stat --residency counts the pages of each filter" {
    "$TAMIS" init store
    seq 1000000 | "$TAMIS" build store large
    seq 5 | "$TAMIS" build store small
    seq 3 | "$TAMIS" grow store growing
    "$TAMIS" build store none --bare
    "$TAMIS" verify store >/dev/null
    ok "$TAMIS" stat store --residency
    prints $'\n +[0-9]+ +[0-9]+ +100.0%  growing\n'
    prints $'\n +[0-9]+ +[0-9]+ +100.0%  large\n'
    prints $'\n'" +$SMALL +$SMALL +100.0%  small"$'\n'
    prints $'\n +[0-9]+ +[0-9]+ +100.0%  in all$'
    [[ ! $output =~ "  none" ]]
    ok "$TAMIS" stat store --residency small none
    prints $'%  small\n'" +$SMALL +$SMALL +100.0%  in all$"
    [[ ! $output =~ "%  large" ]]
    ok "$TAMIS" stat store small --residency --json
    prints '"page_bytes": '"$(getconf PAGESIZE)"','
    prints '"resident": '$SMALL,
    prints '"segment": "small",'
    ok "$TAMIS" stat store
    [[ ! $output =~ "in memory" ]]
}

@test "what is cold is not counted, and what was used is" {
    "$TAMIS" init store
    seq 1000000 | "$TAMIS" build store large
    all=$(resident large)
    [ "$all" -gt 10 ]
    file=$(filter_of large)
    cool "$file"
    cold=$(resident large)
    [ "$cold" -lt "$all" ] || skip "this file system keeps its files in memory"
    [ "$cold" -le 4 ]
    seq 1 20 | "$TAMIS" probe store --keys - --count >/dev/null
    warm=$(resident large)
    [ "$warm" -gt "$cold" ]
    [ "$warm" -le $((cold + 60)) ]
    "$TAMIS" verify store >/dev/null
    [ "$(resident large)" -eq "$all" ]
}

@test "a filter that is lost is told, the others are counted" {
    make_store
    rm "$(filter_of one)"
    fails 4 "filters/.*: opening the filter: .*" "$TAMIS" stat store --residency
    prints $'\n'" +$SMALL +$SMALL +100.0%  two"$'\n'" +$SMALL +$SMALL +100.0%  in all$"
    prints $'\n +- +- +-  one: opening the filter: No such file'
    run --separate-stderr "$TAMIS" stat store --residency --json
    [ "$(jq -r '.residency[] | select(.pages == null) | .segment + ": " + .what' <<<"$output")" = \
        "one: opening the filter: No such file or directory" ]
}

@test "file show --residency" {
    make_file
    ok "$TAMIS" file show f.tamis --residency
    prints "in memory: [0-9]+ of [0-9]+ pages of $(getconf PAGESIZE) bytes\$"
    ok "$TAMIS" file show f.tamis --residency --json
    prints '"pages": [0-9]+,'
    prints '"resident": [0-9]+'
    ok "$TAMIS" file show f.tamis
    [[ ! $output =~ "in memory" ]]
    flip f.tamis 100
    fails 3 "f.tamis" "$TAMIS" file show f.tamis --residency
    prints "identity"
}

@test "what the kernel does not tell is not told" {
    make_file
    [ "$(id -u)" -eq 0 ] || skip "only root can make a file that is another's"
    chmod 0644 f.tamis
    chmod 0755 .
    exec 7<f.tamis
    ok unprivileged "$TAMIS" file show /dev/fd/7 --residency
    prints 'in memory: \? of [0-9]+ pages'
    ok unprivileged "$TAMIS" file show /dev/fd/7 --residency --json
    prints '"pages": [0-9]+'
    [[ ! $output =~ resident ]]
    exec 7<&-
}
