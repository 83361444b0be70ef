# Colours and progress, which only people see: each on a terminal of its own.
load ../common

red=$'\e[1;31m' green=$'\e[32m' end=$'\e[0m'

# has TEXT: somewhere in $output.
has() {
    [[ $output == *"$1"* ]] || explain "output with $1"
}

# on_terminal COLUMNS COMMAND: runs it by a shell on a terminal of its own; what this shows
# is in $output, and meanwhile in the file shown.
on_terminal() {
    ok env TERM="${TERM_IS-xterm}" script -qefc "stty cols $1; $2" shown
}

@test "colours on a terminal" {
    make_store
    flip "$(filter_of two)" 5000
    on_terminal 80 'tamis probe store cc nope'
    has "${green}ABSENT$end"
    has "${red}DAMAGED$end"
    on_terminal 80 'tamis verify store; :'
    has "${green}ok$end"
    has "${red}damaged$end"
}

@test "no colours elsewhere, nor where they are not wanted" {
    make_store
    flip "$(filter_of two)" 5000
    for c in "probe store cc nope" "verify store" "stat store one"; do
        run bash -c "TERM=xterm tamis $c 2>&1 | cat"
        [[ $output != *$'\e'* ]]
        on_terminal 80 "NO_COLOR=1 tamis $c; :"
        [[ $output != *$'\e['[0-9]* ]]
        on_terminal 80 "TERM=dumb tamis $c; :"
        [[ $output != *$'\e'* ]]
        on_terminal 80 "TERM= tamis $c; :"
        [[ $output != *$'\e'* ]]
        on_terminal 80 "tamis $c --color=never; :"
        [[ $output != *$'\e['[0-9]* ]]
    done
    # An empty NO_COLOR says nothing.
    on_terminal 80 'NO_COLOR= tamis probe store cc'
    has "${red}DAMAGED$end"
}

@test "ls names its columns on a terminal, and nowhere else" {
    make_store
    on_terminal 80 'tamis ls store'
    [[ $output =~ ^STATE\ +RANK\ +KEYS\ +BYTES\ +ERROR\ +WATERMARK\ +CREATED\ +SEGMENT ]]
    [ "${#lines[@]}" -eq 3 ]
    for c in 'tamis ls store | cat' 'tamis ls store --names' 'tamis ls store --json'; do
        on_terminal 80 "$c"
        [[ $output != *STATE* ]]
    done
}

@test "--color" {
    make_store
    for c in --color --color=always; do
        gives $'nope\t-\t'"${green}ABSENT$end" tamis probe store nope $c
    done
    NO_COLOR=1 ok tamis probe store nope --color
    has "$green"
    for c in --color=never --color=auto; do
        gives $'nope\t-\tABSENT' tamis probe store nope $c
    done
    fails 2 "--color is never, auto or always, not 'green'" tamis ls store --color=green
    # Programs get none.
    ok tamis probe store nope --color --json
    [[ $output != *$'\e'* ]]
    ok tamis repair store --confirm --color
}

@test "a filter over its target is told in red" {
    tamis init store
    seq 100000 >k
    fails 4 "could not grow: .* the error is" bash -c 'ulimit -f 100; tamis grow store g k --n0 1000'
    ok tamis stat store g --color
    has "target 1%: ${red}OVER TARGET"
    has "${red}           1 over their target"
    tamis stat store --svg - | grep -q 'class="bad"'
}

@test "progress on a terminal, with rate and time left" {
    tamis init store
    seq 100 >k
    on_terminal 80 'tamis build store s k'
    prints "built segment 's': 100 keys, .*, [0-9.]+ (M )?keys/s, [0-9.]+ s"
    # A list that takes its time.
    on_terminal 24 'until grep -q grow: shown; do seq 4096; done | tamis grow store g -'
    prints $'\r\e\\[Kgrow: [0-9]{4,} keys, [0-9]+'
    prints $'\r\e\\[Kadded [0-9]{4,} keys to segment'
    # No line of progress is wider than the terminal: else it would stay.
    while IFS= read -r line; do [ ${#line} -le 26 ]; done < <(tr '\r' '\n' <<<"$output" | grep grow:)
}

@test "progress with what is left of a file" {
    tamis init store
    seq 5000000 >k
    on_terminal 80 'tamis grow store g k'
    prints 'grow: [0-9]+ keys, [0-9.]+ (M )?keys/s, [0-9]+%, [0-9]+ s left'
}

@test "no progress but on a terminal" {
    tamis init store
    seq 2000000 >k
    ok tamis build store s k
    on_terminal 80 'tamis build store t k 2>err'
    [ -z "$output" ]
    is_closing "$(cat err)"
    [[ $(cat err) != *keys/s* ]]
    TERM_IS=dumb on_terminal 80 'tamis build store u k'
    [[ $output =~ ^"built segment 'u': " && $output != *keys/s* ]]
    on_terminal 80 'tamis build store v k -q'
    [ -z "$output" ]
    # Answers are on the same terminal: they are all there is.
    on_terminal 80 'tamis probe store --keys k | tail -1; seq 3 >few; tamis probe store --keys few'
    [[ $output != *"keys/s"*$'1\ts' ]]
}

@test "progress does not stay under what is said" {
    tamis init store
    seq 400000 >k
    head -c 70000 /dev/zero | tr '\0' x >>k
    ok script -qec 'TERM=xterm tamis build store s k; :' /dev/null
    prints $'(\r\e\\[K|^)tamis: k: line 400001: longer'
}
