# tamis stat --svg: a picture that is valid XML and shows what there is.
load ../common

# x XPATH: of pic.svg, without its name space.
x() {
    sed 's/ xmlns="[^"]*"//' pic.svg | xmllint --xpath "$1" -
}

# The columns: their titles, one a line.
titles() {
    x '//g/title/text()' | grep -c 'keys,'
}

draw() {
    gives '' tamis stat "$1" --svg pic.svg "${@:2}"
    xmllint --noout pic.svg
}

# The widths of the columns and their gaps make up the whole.
whole() {
    sed -n 's/^.*<rect x="\([0-9.]*\)" y="136.00" width="\([0-9.]*\)".*class="track".*/\1 \2/p' pic.svg |
        awk '{ if ($1 < at - 0.02) exit 1; at = $1 + $2 } END { exit !(at > 935 && at < 936.6) }'
}

@test "a segment each, and what is in it" {
    make_store
    seq 100000 | tamis build store large
    tamis build store bare --bare
    draw store
    [ "$(titles)" -eq 3 ]
    whole
    [ "$(x 'count(//g)')" = 3 ]
    x 'string(//g[1]/title)' | grep -x large
    x 'string(//g[1]/title)' | grep -x '100,000 keys, 132.0 KiB'
    fill=$(tamis stat store large --json | jq '.details[].stages[].fill * 100')
    x 'string(//g[1]/title)' | grep -x "$(printf '%.2f%% of the bits are set' "$fill")"
    # The column is as high.
    high=$(x 'string(//g[1]/rect[2]/@height)')
    jq -ne "($high - 2.2 * $fill) | fabs < 0.02"
    x 'string(//svg)' | grep '3 sealed, 0 growing, 1 without a filter'
    draw store one
    [ "$(titles)" -eq 1 ]
}

@test "hostile names" {
    tamis init $'st<o>re&"\'\n'
    for name in '<script>alert(1)</script>' '"/><g>' "&amp;]]>'" $'\x01\x1b[31m\xff' '<!--' \
        $'\xef\xbf\xbe\xef\xbf\xbf' $'\xe2\x80\xaegpj' "%s%n%d" "$(printf '<%.0s' {1..255})" 'ünïcödé 名'; do
        seq 9 | tamis build $'st<o>re&"\'\n' "$name"
    done
    draw $'st<o>re&"\'\n'
    [ "$(titles)" -eq 10 ]
    x 'string(/svg/title)' | grep -Fx 'tamis store st<o>re&"'"'"'\x0a'
    for shown in '<script>alert(1)</script>' '"/><g>' "&amp;]]>'" '\x01\x1b[31m\xff' '<!--' \
        '\xef\xbf\xbe\xef\xbf\xbf' '\xe2\x80\xaegpj' '%s%n%d' 'ünïcödé 名'; do
        x '//g/title' | sed 's/&lt;/</g;s/&gt;/>/g;s/&quot;/"/g;s/&amp;/\&/g' |
            grep -Fq "<title>$shown" || { echo "$shown"; x '//g/title'; return 1; }
    done
    [ "$(x 'count(//script)')" = 0 ]
    [ "$(x 'count(//g)')" = 10 ]
}

@test "no segment, and none with a filter" {
    tamis init store
    draw store
    x 'string(//svg)' | grep 'no segment has a filter'
    tamis build store bare --bare
    draw store
    x 'string(//svg)' | grep '0 sealed, 0 growing, 1 without'
}

@test "a filter that does not open is shown as such, without a fill" {
    make_store
    poke "$(filter_of one)" 100 '\xff\xff'
    rm "$(filter_of two)"
    fails 3 "^tamis: store: 1 filter unreadable, 1 lost: 'tamis verify' says which$" tamis stat store --svg pic.svg
    [ -z "$output" ]
    xmllint --noout pic.svg
    [ "$(titles)" -eq 2 ]
    [ "$(x 'count(//g/rect[@fill="url(#hatch)"])')" = 2 ]
    [ "$(x 'count(//g/rect)')" = 4 ] # track and hatch
    x 'string(//svg)' | grep 'not to be read: 2'
    ! grep -q 'of the bits are set' pic.svg || explain "no fill"
    # The same on standard output; with names, only of those.
    fails 3 "1 filter unreadable, 1 lost" tamis stat store --svg -
    printf '%s\n' "$output" | cmp - pic.svg
    seq 9 | tamis build store three
    draw store three
    fails 3 "0 filters unreadable, 1 lost" tamis stat store three two --svg pic.svg
    [ "$(id -u)" -eq 0 ] || return 0
    chmod -R a+rwX . store
    chmod 600 "$(filter_of three)"
    fails 4 "1 filter unreadable, 0 lost" unprivileged tamis stat store three --svg pic.svg
    xmllint --noout pic.svg
}

@test "thousands of segments: the smallest share columns, and none is left out" {
    tamis init store
    mkdir lists
    awk 'BEGIN { for (i = 1; i <= 2000; i++) { f = "lists/" i
        for (k = 1; k <= i % 7 * 900 + 3; k++) print k >f
        close(f) } }'
    (cd lists && tamis build ../store --each *)
    seq 2000000 | tamis build store large
    draw store
    n=$(x 'count(//g)')
    [ "$n" -gt 20 ]
    [ "$n" -le 218 ]
    whole
    [ "$(x '//g/title/text()' | sed -n 's/^\([0-9]*\) segments$/\1/p' | awk '{ n += $1 } END { print n }')" -eq 2000 ]
    x 'string(//g[1]/title)' | grep -x large
    x 'string(//svg)' | grep 'The 2,000 smallest segments'
    keys=$(tamis stat store --json | jq .keys)
    [ "$(x '//g/title/text()' | sed -n 's/^\([0-9,]*\) keys, .*/\1/p' | tr -d , | awk '{ n += $1 } END { print n }')" -eq "$keys" ]
    [ "$(stat -c %s pic.svg)" -lt 200000 ]
}

@test "segments stand by rank, the largest of a rank first, with the ranks below" {
    tamis init store
    for rank in 2 0 1; do
        for n in 1 3 2; do seq $((n * (rank + 1) * 20000)) | tamis build store r$rank-$n --rank $rank; done
    done
    draw store
    [ "$(x '//g/title/text()' | grep '^r[0-9]-' | tr '\n' ' ')" = "r0-3 r0-2 r0-1 r1-3 r1-2 r1-1 r2-3 r2-2 r2-1 " ]
    x 'string(//g[4]/title)' | grep -x 'rank 1'
    x '//text[starts-with(., "rank ")]/text()' | tr '\n' ' ' | grep -F 'rank 1: 3 segments rank 2: 3 segments'
    # Columns of several segments are of one rank.
    for i in $(seq 400); do echo $i >l$i; done
    tamis build store --each l{1..200} --rank 0
    tamis build store --each l{201..400} --rank 7
    draw store
    x 'string(//svg)' | grep 'rank 0: 203 segments'
    x 'string(//svg)' | grep 'rank 7: 200 segments'
    [ "$(x '//g/title/text()' | sed -n 's/^\([0-9]*\) segments$/\1/p' | awk '{ n += $1 } END { print n }')" -ge 390 ]
    # A name that has no room is shorter, or left out.
    seq 100000 | tamis build store far --rank 4000000000
    seq 10000 | tamis build store near --rank 1234
    draw store
    ! x '//text/text()' | grep 1234 || explain "no room for near"
    draw store far near
    x '//text/text()' | grep -x 'rank 4000000000: 1 segment'
    x '//text/text()' | grep -x 'rank 1234'
}

# At the end of this file its segment is older than others by more than it takes to show.
setup_file() {
    cd "$BATS_FILE_TMPDIR" || return 1
    tamis init store
    echo a | tamis build store one
}

is_past() {
    [ "$(date +%s)" -ge "$1" ]
}

@test "ages: a scale with marks, or one moment" {
    mv "$BATS_FILE_TMPDIR/store" store
    draw store
    made=$(tamis ls store --json | jq -r '.[0].created / 1000000 | floor | todate')
    [ "$(x 'count(//rect[@fill="url(#age)"])')" = 0 ]
    x 'string(//svg)' | grep -x "made$made" || x '//text/text()' | grep -x "$made"
    soon is_past $(($(tamis ls store --json | jq '.[0].created / 1000000 | floor') + 3))
    echo a | tamis build store two
    draw store
    [ "$(x 'count(//rect[@fill="url(#age)"])')" = 1 ]
    x '//text/text()' | grep -x older
    x '//text/text()' | grep -Ex '10? (s|min)'
    x '//text/text()' | grep -x newest
    x '//text/text()' | grep -Ex "made $made to [-0-9]{10}T[0-9:]{8}Z"
    # The older one has the colour of that end, the newest that of the other.
    [ "$(x '//g/rect[starts-with(@fill, "#")]/@fill' | tr -d ' \n')" = 'fill="#5b63b7"fill="#b5cc4a"' ]
}

@test "columns are as wide as the disk is taken" {
    make_holes
    draw store
    x 'string(//g[1]/title)' | grep -Ex "2 keys, $(jq -n "$taken / 1024").0 KiB allocated, [0-9.]+ KiB long"
}

@test "the file appears whole or not at all" {
    make_store
    draw store
    # To standard output, and nothing else.
    tamis stat store --svg - | cmp - pic.svg
    # It keeps its mode, and a link is followed.
    chmod 600 pic.svg && ln -s pic.svg link
    ok tamis stat store --svg link
    [ -L link ]
    [ "$(stat -c %a pic.svg)" = 600 ]
    (umask 027; tamis stat store --svg new.svg)
    [ "$(stat -c %a new.svg)" = 640 ]
    cp pic.svg before
    fails 4 "^tamis: pic.svg: cannot write: File too large" \
        bash -c 'ulimit -f 1; for i in $(seq 30); do echo k$i | tamis build store s$i 2>/dev/null; done; tamis stat store --svg pic.svg'
    cmp before pic.svg
    fails 4 "^tamis: none/pic.svg: cannot write: No such file" tamis stat store --svg none/pic.svg
    fails 4 "standard output: writing failed" bash -c 'tamis stat store --svg - >/dev/full'
    mkdir dir && mkfifo pipe
    for at in dir pipe /dev/null; do
        fails 2 "^tamis: $at: not a regular file: name one, or '-'" tamis stat store --svg $at
    done
    [ -c /dev/null ]
    fails 2 "leave out --json" tamis stat store --svg x --json
    fails 2 "and this one is empty" tamis stat store --svg ""
    fails 5 "no segment 'ten'" tamis stat store ten --svg x
    [ ! -e x ]
    # Interrupted while it syncs: the file is there, and nothing beside it.
    rm new.svg
    # A caller that runs all this in the background may have had the signal ignored.
    run -130 bash -c 'exec env --default-signal=INT strace -o /dev/null -e trace=fsync -e inject=fsync:signal=INT \
        tamis stat store --svg new.svg'
    cmp new.svg <(tamis stat store --svg -)
    [ "$(ls)" = $'before\ndir\nlink\nnew.svg\npic.svg\npipe\nstore' ]
}

@test "a file that is no picture is not replaced" {
    make_store
    printf '1000\tone\n' >list
    printf 'rocksdb.table' >000012.sst
    ln -s 000012.sst link
    ln -s nowhere dangling
    for at in 000012.sst link dangling; do
        fails 2 "--svg replaces only an SVG picture, and $at is none: remove it first" tamis stat store --svg $at
        fails 2 "and $at is none: remove it" tamis plan store --bytes 1M --svg $at
        fails 2 "and $at is none: remove it" tamis plan --sizes list --bytes 1M --svg $at
    done
    [ "$(cat 000012.sst)" = rocksdb.table ]
    [ -L dangling ]
    [ ! -e nowhere ]
    : >empty
    printf '<?xml version="1.0"?><svg/>' >other.svg
    for at in empty other.svg new.svg; do
        ok tamis stat store --svg $at
        ok tamis stat store --svg $at
        xmllint --noout $at
    done
}
