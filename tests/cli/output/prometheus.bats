# tamis stat --prometheus: the text format, and the numbers in it.
load ../common

# strict: standard input is what a strict reader takes; promtool may have its say, too.
strict() {
    cat >text
    [ "$(tail -c 1 text | od -An -c | tr -d ' ')" = '\n' ] || return 1
    awk -f "$BATS_TEST_DIRNAME/prometheus.awk" text || return 1
    ! command -v promtool >/dev/null || promtool check metrics <text
}

# metrics ARGUMENTS...: status 0, a strict reader is content; it is in $output.
metrics() {
    ok tamis stat "$@" --prometheus
    printf '%s\n' "$output" | strict
}

# has LINE: one of the lines of $output.
has() {
    printf '%s\n' "$output" | grep -Fqx -- "$1" || explain "a line $1"
}

lacks() {
    ! printf '%s\n' "$output" | grep -Fq -- "$1" || explain "no $1"
}

@test "the checker of the format is strict" {
    good=$'# HELP a_bytes What.\n# TYPE a_bytes gauge\na_bytes{x="y\\"\\\\",z=""} 1e-05\n'
    printf '%s' "$good" | strict
    for broken in \
        'a_bytes{x="y"} 1' \
        $'# HELP a What.\na 1' \
        $'# TYPE a gauge\na 1' \
        $'# HELP a What.\n# TYPE a gauge' \
        $'# HELP a What.\n# TYPE a gauge\nb 1' \
        $'# HELP a What.\n# TYPE a gauge\na 1\na 2' \
        $'# HELP a What.\n# TYPE a gauge\na 0x1' \
        $'# HELP a What.\n# TYPE a gauge\na' \
        $'# HELP a What.\n# TYPE a gauge\na{x="\\x41"} 1' \
        $'# HELP a What.\n# TYPE a gauge\na{x="""} 1' \
        $'# HELP a What.\n# TYPE a gauge\na{x=y} 1' \
        $'# HELP a What.\n# TYPE a gauge\na{x="y",} 1 ' \
        $'# HELP a What.\n# TYPE a gauge\n\na 1' \
        $'# HELP a-b What.\n# TYPE a-b gauge\na-b 1' \
        $'# HELP a What.\n# TYPE a counter\na 1' \
        $'# HELP a_total What.\n# TYPE a_total gauge\na_total 1' \
        $'# HELP a What.\n# TYPE a gauge\na 1\n# HELP b What.\n# TYPE b gauge\nb 1\na{x="y"} 1'; do
        run strict <<<"$broken"
        [ "$status" -ne 0 ] || { echo "taken: $broken"; false; }
    done
    printf '%s' "${good%?}" >last
    run strict <last
    [ "$status" -ne 0 ]
}

@test "a store in numbers" {
    tamis init store --fpr 0.001
    seq 1000 | tamis build store sealed
    seq 5 | tamis grow store growing --watermark 42
    tamis build store none --bare
    metrics store
    has 'tamis_segments{store="store",state="sealed"} 1'
    has 'tamis_segments{store="store",state="growing"} 1'
    has 'tamis_segments{store="store",state="bare"} 1'
    has 'tamis_segments{store="store",state="unknown"} 0'
    has 'tamis_catalog_complete{store="store"} 1'
    has 'tamis_segment_info{store="store",segment="none",state="bare"} 1'
    has 'tamis_segment_info{store="store",segment="sealed",state="sealed"} 1'
    has 'tamis_segment_keys{store="store",segment="sealed"} 1000'
    has 'tamis_segment_keys{store="store",segment="growing"} 5'
    has "tamis_segment_filter_bytes{store=\"store\",segment=\"sealed\"} $(stat -c %s "$(filter_of sealed)")"
    has 'tamis_segment_watermark{store="store",segment="growing"} 42'
    has 'tamis_segment_target_error_ratio{store="store",segment="growing"} 0.001'
    has 'tamis_segment_target_error_ratio{store="store",segment="sealed"} 0.001'
    has 'tamis_segment_stages{store="store",segment="growing"} 1'
    has 'tamis_segment_over_target{store="store",segment="growing"} 0'
    has 'tamis_segment_readable{store="store",segment="sealed"} 1'
    lacks '_pages{'
    lacks 'readable{store="store",segment="none"'
    fill=$(tamis stat store sealed --json | sed -n 's/.*"fill": \([0-9.]*\),/\1/p')
    [[ $output == *'fill_ratio{store="store",segment="sealed"} '"${fill:0:10}"* ]]
    expected=$(tamis stat store sealed --json |
        sed -n 's/^ *"expected_error": \([0-9.e-]*\),$/\1/p' | head -n 1)
    [[ $output == *'expected_error_ratio{store="store",segment="sealed"} '"${expected:0:8}"* ]]
}

@test "names of any bytes are labels" {
    tamis init 'st"ore'
    for name in 'a"b' 'back\slash' $'two\nlines' $'\xff\xfe' 'grün' '{x="y"} 1'; do
        tamis build 'st"ore' "$name" --bare
    done
    metrics 'st"ore'
    has 'tamis_segment_info{store="st\"ore",segment="a\"b",state="bare"} 1'
    has 'tamis_segment_info{store="st\"ore",segment="back\\x5cslash",state="bare"} 1'
    has 'tamis_segment_info{store="st\"ore",segment="two\\x0alines",state="bare"} 1'
    has 'tamis_segment_info{store="st\"ore",segment="\\xff\\xfe",state="bare"} 1'
    has 'tamis_segment_info{store="st\"ore",segment="grün",state="bare"} 1'
    has 'tamis_segment_info{store="st\"ore",segment="{x=\"y\"} 1",state="bare"} 1'
}

@test "segments that are named, and a store without any" {
    tamis init store
    metrics store
    has 'tamis_segments{store="store",state="sealed"} 0'
    lacks tamis_segment_
    build_of one=10 two=20
    metrics store two
    has 'tamis_segment_keys{store="store",segment="two"} 20'
    lacks 'segment="one"'
    has 'tamis_segments{store="store",state="sealed"} 2'
    fails 5 "three" tamis stat store three --prometheus
    [ -z "$output" ]
    fails 5 "" tamis stat nowhere --prometheus
    [ -z "$output" ]
}

@test "pages are checked if it is asked for" {
    tamis init store
    seq 100000 | tamis build store rotten
    seq 10 | tamis build store sound
    flip "$(filter_of rotten)" 9000
    metrics store
    lacks _pages
    fails 3 "^tamis: store: 1 damaged page: 'tamis verify' says which$" tamis stat store --prometheus --check
    printf '%s\n' "$output" | strict
    has 'tamis_segment_damaged_pages{store="store",segment="rotten"} 1'
    has 'tamis_segment_damaged_pages{store="store",segment="sound"} 0'
    pages=$(tamis verify store rotten --json 2>/dev/null |
        sed -n 's/.*"pages": \([0-9]*\),/\1/p')
    has "tamis_segment_checked_pages{store=\"store\",segment=\"rotten\"} $pages"
    metrics store sound --check
    fails 4 "standard output" bash -c 'tamis stat store --prometheus --check >/dev/full'
}

@test "filters that are lost or unreadable: the metrics, and the status of stat" {
    tamis init store
    seq 10 | tamis build store lost
    seq 10 | tamis build store smashed
    rm "$(filter_of lost)"
    poke "$(filter_of smashed)" 0 'xxxxxxxx'
    fails 3 "^tamis: store: 1 filter unreadable, 1 lost: 'tamis verify' says which$" tamis stat store --prometheus --check
    printf '%s\n' "$output" | strict
    has 'tamis_segment_readable{store="store",segment="lost"} 0'
    has 'tamis_segment_readable{store="store",segment="smashed"} 0'
    has 'tamis_segment_keys{store="store",segment="lost"} 10'
    lacks 'damaged_pages{store="store",segment="lost"'
    # With names, only of those.
    seq 10 | tamis build store sound
    metrics store sound
    fails 3 "0 filters unreadable, 1 lost" tamis stat store lost sound --prometheus
    # Another filter's file, and what is no file.
    file=$(filter_of smashed)
    cp "$(filter_of sound)" "$file"
    fails 3 "1 filter unreadable, 0 lost" tamis stat store smashed --prometheus
    has 'tamis_segment_readable{store="store",segment="smashed"} 0'
    rm "$file" && mkfifo "$file"
    fails 3 "0 filters unreadable, 1 lost" tamis stat store smashed --prometheus
    has 'tamis_segment_readable{store="store",segment="smashed"} 0'
}

@test "options that do not go with it" {
    tamis init store
    fails 2 "--prometheus goes with neither" tamis stat store --prometheus --json
    fails 2 "--prometheus goes with neither" tamis stat store --prometheus --residency
    fails 2 "--check is for --prometheus" tamis stat store --check
    fails 4 "" bash -c 'tamis stat store --prometheus >/dev/full'
}
