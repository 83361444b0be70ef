# Shared by the command-line tests. $TAMIS is the command under test.
bats_require_minimum_version 1.5.0

TAMIS=${TAMIS:-$(dirname "${BASH_SOURCE[0]}")/../../build/tamis}
TAMIS=$(realpath "$TAMIS")
export TAMIS LC_ALL=C

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
}

explain() {
    printf 'status %s, wanted %s\nstdout: %s\nstderr: %s\n' "$status" "$1" "$output" \
        "$stderr"
    return 1
}

# ok COMMAND...: status 0, nothing on stderr but the closing line of a command that has one.
# Standard output is in $output.
ok() {
    run --separate-stderr "$@"
    [ "$status" -eq 0 ] && { [ -z "$stderr" ] || is_closing "$stderr"; } || explain 0
}

is_closing() {
    [[ $1 != *$'\n'* && $1 =~ ^(built|listed|added|dropped|packed|unpacked|would pack|nothing)\  ]]
}

# fails STATUS PATTERN COMMAND...: that status, and on stderr one line, of the command that
# was run (`tamis: ...`), that matches the extended regular expression.
fails() {
    local want=$1 pattern=$2
    shift 2
    run --separate-stderr "$@"
    [ "$status" -eq "$want" ] && [ "${#stderr_lines[@]}" -eq 1 ] &&
        [[ $stderr == tamis?(-leveldb)": "* ]] && [[ $stderr =~ $pattern ]] || explain "$want: $pattern"
}

# prints PATTERN: $output matches it.
prints() {
    [[ $output =~ $1 ]] || explain "output $1"
}

# A store with segment "one" of keys a b c, and "two" of c d.
make_store() {
    "$TAMIS" init store
    printf 'a\nb\nc\n' | "$TAMIS" build store one
    printf 'c\nd\n' | "$TAMIS" build store two
}

# A filter file, f.tamis, of the keys 1..1000.
make_file() {
    seq 1000 >keys
    "$TAMIS" file build f.tamis keys --segment s "$@"
}

# poke FILE OFFSET BYTES (as for printf %b)
poke() {
    printf '%b' "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# flip FILE OFFSET: inverts one bit there.
flip() {
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    poke "$1" "$2" "\\x$(printf %02x $((byte ^ 4)))"
}

# The file of the only segment, or of the segment named.
filter_of() {
    "$TAMIS" ls store "$@" --json | sed -n 's/.*"file": "\(.*\)".*/store\/\1/p'
}

# A store with a segment "g" whose file, $length bytes long, has holes, and takes $taken.
# Two keys have fewer bits than the file has pages: some of its pages are always empty.
make_holes() {
    "$TAMIS" init store
    seq 2 | "$TAMIS" grow store g
    "$TAMIS" seal store g
    fallocate --dig-holes "$(filter_of g)"
    length=$(stat -c %s "$(filter_of g)")
    taken=$(($(stat -c %b "$(filter_of g)") * 512))
    [ "$taken" -lt "$length" ] || skip "this file system makes no holes"
}

# list_of SEGMENT: the file of its list.
list_of() {
    local f
    for f in store/filters/*.tamis; do
        "$TAMIS" file show "$f" --json | jq -e --arg s "$1" '[.fields[] |
            select(.record == "identity" and (.name == "kind" or .name == "name")) |
            .value] == [5, $s]' >/dev/null && echo "$f"
    done
    :
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# Waits until a command succeeds: a minute at most, for machines that are slow or busy.
soon() {
    local end=$((SECONDS + 60))
    while ! "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.02
    done
}

# Has segment $1 of the store a writer? This reads the filter's header and takes no lock: a
# second writer could get the lock first, and the one that is waited for would give up.
has_writer() {
    "$TAMIS" stat store "$1" | grep -q "a writer has it"
}

# Runs a command as someone who is not root, in a directory that they can reach.
unprivileged() {
    if [ "$(id -u)" -eq 0 ]; then
        setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
    else
        "$@"
    fi
}
