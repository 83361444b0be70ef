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
    tamis stat store "$1" --residency --json |
        sed -n 's/^  "resident": \([0-9]*\),\{0,1\}$/\1/p'
}

@test "stat --residency counts the pages of each filter" {
    tamis init store
    seq 1000000 | tamis build store large
    seq 5 | tamis build store small
    seq 3 | tamis grow store growing
    tamis build store none --bare
    tamis verify store >/dev/null
    tells $'\n +[0-9]+ +[0-9]+ +100.0%  growing\n' tamis stat store --residency
    prints $'\n +[0-9]+ +[0-9]+ +100.0%  large\n'
    prints $'\n'" +$SMALL +$SMALL +100.0%  small"$'\n'
    prints $'\n +[0-9]+ +[0-9]+ +100.0%  in all$'
    [[ ! $output =~ "  none" ]]
    tells $'%  small\n'" +$SMALL +$SMALL +100.0%  in all$" tamis stat store --residency small none
    [[ ! $output =~ "%  large" ]]
    ok tamis stat store small --residency --json
    prints '"page_bytes": '"$(getconf PAGESIZE)"','
    prints '"resident": '$SMALL,
    prints '"segment": "small",'
    ok tamis stat store
    [[ ! $output =~ "in memory" ]]
}

@test "used pages are counted, and cold ones are not" {
    tamis init store
    seq 1000000 | tamis build store large
    all=$(resident large)
    [ "$all" -gt 10 ]
    file=$(filter_of large)
    cool "$file"
    cold=$(resident large)
    [ "$cold" -lt "$all" ] || skip "this file system keeps its files in memory"
    [ "$cold" -le 4 ]
    seq 1 20 | tamis probe store --keys - --count >/dev/null
    warm=$(resident large)
    [ "$warm" -gt "$cold" ]
    [ "$warm" -le $((cold + 60)) ]
    tamis verify store >/dev/null
    [ "$(resident large)" -eq "$all" ]
}

@test "a filter that is lost is told, the others are counted" {
    make_store
    rm "$(filter_of one)"
    fails 4 "filters/.*: opening the filter: .*" tamis stat store --residency
    prints $'\n'" +$SMALL +$SMALL +100.0%  two"$'\n'" +$SMALL +$SMALL +100.0%  in all$"
    prints $'\n +- +- +-  one: opening the filter: No such file'
    capture tamis stat store --residency --json
    [ "$(jq -r '.residency[] | select(.pages == null) | .segment + ": " + .what' <<<"$output")" = \
        "one: opening the filter: No such file or directory" ]
}

@test "file show --residency" {
    make_file
    ok tamis file show f.tamis --residency
    prints "in memory: [0-9]+ of [0-9]+ pages of $(getconf PAGESIZE) bytes\$"
    tells '"pages": [0-9]+,' tamis file show f.tamis --residency --json
    prints '"resident": [0-9]+'
    ok tamis file show f.tamis
    [[ ! $output =~ "in memory" ]]
    flip f.tamis 100
    fails 3 "f.tamis" tamis file show f.tamis --residency
    prints "identity"
}

@test "figures that the kernel does not tell are left out" {
    make_file
    [ "$(id -u)" -eq 0 ] || skip "only root can make a file that is another's"
    chmod 0644 f.tamis
    chmod 0755 .
    exec 7<f.tamis
    tells 'in memory: \? of [0-9]+ pages' unprivileged tamis file show /dev/fd/7 --residency
    tells '"pages": [0-9]+' unprivileged tamis file show /dev/fd/7 --residency --json
    [[ ! $output =~ resident ]]
    exec 7<&-
}
