# Key lists in every form, whole and broken.
load ../common

# built ARG...: f.tamis, made anew.
built() {
    rm -f f.tamis
    ok tamis file build f.tamis "$@"
}

n_keys() {
    tamis file show f.tamis --json | grep -A5 '"commit birth"' | grep -A4 '"keys"' |
        sed -n 's/.*"value": \([0-9]*\).*/\1/p' | head -1
}

@test "a last line without newline is a key, and an empty line the empty key" {
    printf 'a\n\nlast' >k
    built k
    tells $'^\tf.tamis\tHIT\na\tf.tamis\tHIT\nlast\tf.tamis\tHIT$' tamis file probe f.tamis "" a last
    tells "checked 3 keys in 1 segment: 0 lost" tamis file verify f.tamis --against k
}

@test "-0: keys end with NUL and may hold newlines" {
    printf 'a\nb\0c' >k
    built -0 k
    tells '^a\\x0ab.f.tamis.HIT' tamis file probe f.tamis $'a\nb' c
    exits 10 tamis file probe --quiet f.tamis a
    tells "maybe_pairs +2" tamis file probe f.tamis -0 --keys k --count
}

@test "--hex: any bytes, NUL as well" {
    printf '00FF\n0a\n\n61' >k
    built --hex k
    ok tamis file probe f.tamis --hex 00ff 0A "" 61
    [ "${#lines[@]}" -eq 4 ]
    prints '^00ff.f.tamis.HIT'
    tells HIT tamis file probe f.tamis a
}

@test "--binary: a length before each key, of any size" {
    { printf '\003\0\0\0a\nb\0\0\0\0'; printf '\0\0\020\0'; head -c 1048576 /dev/zero; } >k
    built --binary k
    tells "keys +3" tamis file probe f.tamis --binary --keys k --count
    prints "maybe_pairs +3"
    ok tamis file probe f.tamis $'a\nb' ""
    [ "${#lines[@]}" -eq 2 ]
}

@test "no key is lost between two reads, nor between two pieces" {
    # Lines of 0..299 bytes, more of them than a buffer holds.
    awk 'BEGIN { srand(5); for (i = 0; i < 20000; i++) {
        n = i % 3 ? int(rand() * 300) : int(rand() * 12); s = i;
        while (length(s) < n) s = s "." int(rand() * 1e9);
        print n ? substr(s, 1, n) : "" } }' >lines
    tr '\n' '\0' <lines >nul
    built lines --seed 0000000000000001 --fpr 1e-6
    tells "checked 20000 keys in 1 segment: 0 lost" tamis file verify f.tamis --against lines
    n=$(n_keys)
    for form in "" -0; do
        # In one piece, from a pipe, from a slow one.
        for from in 'cat' 'dd bs=77 status=none' 'dd bs=4099 status=none'; do
            rm -f g.tamis
            list=lines
            [ -z "$form" ] || list=nul
            $from <$list | tamis file build g.tamis - $form --seed 0000000000000001 --fpr 1e-6
            cmp -i 4096 f.tamis g.tamis
        done
    done
    # Cut off anywhere, a list has the keys of what is left, the last one cut.
    for cut in $(seq 262130 262160); do
        head -c $cut lines >part
        built part
        [ "$(n_keys)" -eq "$(uniq part | grep -c '')" ]
        tells "maybe_pairs +1" tamis file probe f.tamis --keys <(tail -n 1 part) --count
    done
    [ "$n" -eq "$(uniq lines | grep -c '')" ]
}

@test "-j: no more threads than that, however many segments" {
    local p n most=0
    for i in 1 2 3; do seq $i 3 3000000 >k$i; done
    ok tamis init store
    tamis build store --each -j 4 --fpr 1e-6 k1 k2 k3 &
    p=$!
    while kill -0 $p 2>/dev/null; do
        set -- /proc/$p/task/*
        [ $# -le $most ] || most=$#
    done
    wait $p
    [ $most -gt 1 ]
    [ $most -le 4 ]
}

@test "a line of 65536 bytes is a key, one of 65537 an error with its place" {
    { echo short; head -c 65536 /dev/zero | tr '\0' x; echo; echo end; } >k
    built k
    tells HIT tamis file probe f.tamis end
    { echo short; head -c 65537 /dev/zero | tr '\0' x; echo; } >k
    fails 2 "^tamis: k: line 2: longer than 65536 bytes \(offset 6\): .*--binary" tamis file build g.tamis k
    [ ! -e g.tamis ]
    head -c 300000 /dev/zero | tr '\0' x >k
    fails 2 "line 1: longer" tamis file build g.tamis k
    fails 2 "line 1: longer" tamis file probe f.tamis --keys k
    fails 2 "key 1: longer.*--binary" tamis file build g.tamis -0 k
}

@test "bad hex and cut binary lists name the place" {
    printf '00\n0g\n' >k
    fails 2 "k: line 2: not an even number of hex digits \(offset 3\)" tamis file build g.tamis --hex k
    printf '000' >k
    fails 2 "line 1" tamis file build g.tamis --hex k
    printf '\001\0\0\0a\005\0\0\0abc' >k
    fails 2 "k: key 2: the list ends within it \(offset 5\)" tamis file build g.tamis --binary k
    printf '\001\0' >k
    fails 2 "key 1: the list ends" tamis file build g.tamis --binary k
    [ ! -e g.tamis ]
}

@test "standard input, pipes and FIFOs" {
    seq 3000 | tamis file build a.tamis
    seq 3000 | tamis file build b.tamis -
    mkfifo fifo
    seq 3000 >fifo 3>&- &
    built fifo
    for f in a b f; do
        capture bash -c 'seq 3000 | tamis file probe '$f'.tamis --keys - --count'
        prints "maybe_pairs +3000"
    done
}

@test "answers come as questions do" {
    built <(echo a)
    mkfifo ask
    tamis file probe f.tamis --keys ask >answers 3>&- &
    pid=$!
    exec 7>ask
    echo a >&7
    soon grep -q HIT answers
    kill -0 $pid
    exec 7>&-
    wait $pid
}

@test "standard input closed" {
    fails 4 "standard input: it is closed" bash -c 'tamis file build f.tamis <&-'
    [ ! -e f.tamis ]
    make_store
    fails 4 "standard input: it is closed" bash -c 'tamis build store s <&-'
    fails 4 "standard input: it is closed" bash -c 'tamis grow store s - <&-'
    lists 2
}

@test "a key list that is missing, a directory, or not readable" {
    fails 4 "^tamis: none: cannot open the key list: No such file" tamis file build f.tamis none
    mkdir d
    fails 4 "^tamis: d: cannot read the key list: Is a directory" tamis file build f.tamis d
    fails 4 "standard input: cannot read the key list: Is a directory" bash -c 'tamis file build f.tamis <d'
    [ ! -e f.tamis ]
}

@test "printed keys and names: unprintable bytes and backslashes are escaped" {
    printf 'tab\there\nback\\slash\n\377\303\251\302\205\033[1m' >k
    built k --segment $'n\tame'
    ok tamis file probe f.tamis --keys k
    [ "${lines[0]}" = $'tab\\x09here\tn\\x09ame\tHIT' ]
    [ "${lines[1]}" = $'back\\x5cslash\tn\\x09ame\tHIT' ]
    # Valid UTF-8 stands for itself; C1 controls do not.
    [ "${lines[2]}" = $'\\xff\303\251\\xc2\\x85\\x1b[1m\tn\\x09ame\tHIT' ]
    ok tamis file probe f.tamis --keys k --json
    [ "${lines[1]}" = '{"key":"back\\x5cslash","candidates":[{"segment":"n\\x09ame","reason":"HIT"}],"answer":"MAYBE"}' ]
}

@test "-j: of several failures the exit code is that of the line" {
    ok tamis init s
    echo 'not hex' >bad
    mkdir dir
    ln -s loop loop
    for i in $(seq 150); do
        capture tamis build s --each bad missing dir loop -j4 --hex
        case $stderr in
        *missing* | *dir* | *loop*) [ "$status" -eq 4 ] || explain 4 ;;
        *) [ "$status" -eq 2 ] || explain 2 ;;
        esac
    done
}

@test "the first signal ends the wait for a FIFO's writer" {
    tamis init store
    seq 10 >a
    mkfifo ff f2
    for command in "build store x ff --list" "build store --each ff" "build store --each a ff -j2" \
        "build store --each ff f2 -j2" "grow store g ff"; do
        for signal in INT TERM HUP; do
            env --default-signal=INT,TERM,HUP tamis $command 2>err 3>&- &
            pid=$!
            soon waits_with $pid ff || explain "$command: a list that is open"
            kill -$signal $pid
            ends_with $((128 + $(kill -l $signal))) $pid || explain "$command: $signal"
            ! grep 'Interrupted system call' err || explain "$command: no word of it"
        done
    done
    gives '' tamis ls store --names
}

@test "a list whose writer comes late, or has gone, is read in whole" {
    tamis init store
    mkfifo ff
    seq 300000 >keys
    tamis build store late ff -q 3>&- &
    soon waits_with $! ff
    cat keys >ff
    wait $!
    ok tamis verify store late --against keys
    tamis build store slow ff 2>err 3>&- &
    soon waits_with $! ff
    exec 7>ff
    before=$(sed -n 's/^rchar: //p' /proc/$!/io)
    echo a >&7
    soon moved $! rchar $((before + 2))
    echo b >&7
    exec 7>&-
    wait $!
    grep ': 2 keys, ' err
    tamis build store none ff 2>err 3>&- &
    soon waits_with $! ff
    : >ff
    ends_with 2 $!
    grep "ff: no key is in this list" err
    exec 6< <(seq 77)
    wait $!
    ok tamis build store gone /dev/fd/6
    [[ $stderr == *": 77 keys, "* ]]
    exec 6<&-
    ok tamis build store empty /dev/null --empty
}
