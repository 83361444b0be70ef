# Help fits a screen and shows how; slips are answered with what was probably meant.
load ../common

commands() {
    { tamis help; tamis help file; } |
        sed -n 's/^  tamis \(file [a-z]\+\|[a-z]\+\) .*/\1/p' | grep -vx file
}

# fits TEXT: on a screen of 24 lines and 80 columns.
fits() {
    [ "$(wc -l <<<"$1")" -le 24 ] && [ "$(LC_ALL=C.UTF-8 wc -L <<<"$1")" -le 80 ] ||
        { printf '%s\n' "$1"; return 1; }
}

@test "help fits a screen" {
    ok tamis help
    fits "$output"
    [ "$(commands | wc -l)" -ge 28 ]
    for topic in json keys exit file help; do
        ok tamis help $topic
        fits "$output"
    done
}

@test "help of help names every topic, and the topics are there" {
    tells '^usage: tamis help \[COMMAND \| TOPIC\]' tamis help help
    mapfile -t topics < <(sed -n 's/^  \([a-z]*\)  .*/\1/p' <<<"$output")
    [ "${topics[*]}" = "file keys exit json" ]
}

@test "the help of every command fits a screen and has examples" {
    while read -r c; do
        ok tamis help $c
        fits "$output"
        prints $'\nExamples?:\n(.*\n)?  .*tamis '"$c "
    done < <(commands)
}

# A directory in which the examples of a command work.
make_example() {
    mkdir lists
    [ "$1" != init ] || return 0
    seq 2000 | tee keys.txt log wanted.txt >lists/a.keys
    tamis init store
    for s in 000007.sst 000009.sst; do tamis build store $s keys.txt; done
    [ "$1" = build ] || tamis build store 000012.sst keys.txt
    [ "$1" = build ] || tamis build store a lists/a.keys
    tamis grow store memtable keys.txt --watermark 1000
    [ "$1" != unpack ] || tamis pack store
    [[ $1 != "file "@(show|probe|verify|estimate) ]] || tamis file build words.tamis keys.txt
}

@test "examples run" {
    while read -r c; do
        mkdir "at $c" && cd "at $c"
        make_example "$c"
        examples=$(tamis help $c | sed -n '/^Examples*:/,$s/^  //p')
        examples=${examples//\/var\/lib\/engine\//}
        examples=${examples//\/backup\//}
        examples=${examples//\/usr\/share\/dict\/words/keys.txt}
        run bash -ec "$examples"
        [ "$status" -eq 0 ] || explain "0: $examples"
        cd ..
    done < <(commands)
}

@test "mistyped commands" {
    fails 2 "no such command 'biuld': did you mean 'build'\?" tamis biuld store x
    fails 2 "'verfiy': did you mean 'verify'\?" tamis help verfiy
    fails 2 "'rep': did you mean 'repair'\?" tamis rep store
    fails 2 "'hepl': did you mean 'help'\?" tamis hepl
    fails 2 "file: no such command 'shwo': did you mean 'show'\? it is build" tamis file shwo f
    for c in sift x "" "$(printf %0300d 0)"; do
        fails 2 "no such command '$c': 'tamis help'" tamis "$c"
    done
    fails 2 "no such command 'sift': it is build, show" tamis file sift f
    fails 2 "file: which command" tamis file
}

@test "mistyped options" {
    fails 2 "option '--jsno': did you mean '--json'\? see" tamis ls store --jsno
    fails 2 "option '--frp': did you mean '--fpr'\?" tamis init store --frp=1
    fails 2 "'--repalce': did you mean '--replaces'\?" tamis build store a --repalce x
    fails 2 "option '--json' takes no value" tamis ls store --json=3
    fails 2 "option '--quiet' takes no value" tamis probe store a --q=
    fails 2 " unknown option '--xyzzy': see" tamis ls store --xyzzy
    fails 2 " ambiguous option '--n': --null, --names: see" tamis ls store --n
    fails 2 " ambiguous option '--bi': --binary, --bind: see" tamis build store s - --bi=00
    # Only what the command takes is meant.
    fails 2 " unknown option '--fprr': see" tamis ls store --fprr
}

@test "an option of one letter that is unknown: no other word is blamed" {
    fails 2 "unknown option '-:': see" tamis probe store a -:q
    for at in "-é store" "store -é" "store -é0" "-0é store"; do
        fails 2 "ls: unknown option '-é': see" tamis ls $at
    done
    fails 2 "ls: unknown option '-.xff': see" tamis ls store $'-\xff'
}

@test "mistyped segments" {
    make_store
    echo a | tamis build store level0-000012.sst
    echo a | tamis build store $'tab\there'
    meant='level0-000012.sst'
    for c in "ls store" "stat store" "verify store" "seal store" "drop store" \
        "probe store k --segment" "build store x /dev/null --replaces" \
        "attach store x f --replaces"; do
        fails 5 "no segment 'level0-00012.sst': did you mean '$meant'\?" tamis $c level0-00012.sst
    done
    fails 5 "'oen': did you mean 'one'\?" tamis ls store oen
    fails 5 "'tabhere': did you mean 'tab.x09here'\?" tamis ls store tabhere
    fails 5 "no segment 'three': 'tamis ls'" tamis ls store three
    long=$(printf %0250d 0)
    fails 5 "no segment '$long': 'tamis ls'" tamis ls store "$long"
    tamis ls store | wc -l | grep -qx 4
}

@test "an unknown segment after a known one" {
    make_store
    for c in ls stat verify seal drop "verify --json" "stat --json" "stat --prometheus" \
        "stat --residency" "stat --svg=-" "union new" "compare"; do
        set -- $c
        fails 5 "no segment 'nope': 'tamis ls'" tamis "$1" store ${2:-} one nope
    done
    tamis ls store | wc -l | grep -qx 2
}

@test "what --each leaves no name of names its file" {
    tamis init store
    mkdir d && : >d/.keys
    fails 2 "^tamis: build: d/.keys: no name .* is left" tamis build store --each d/.keys --strip .keys
    fails 2 "^tamis: build: d/: no name .* is left" tamis build store --each d/
}
