# Shared by the command-line tests. $TAMIS is the command under test, by its name `tamis`.
bats_require_minimum_version 1.5.0

TAMIS=${TAMIS:-$(dirname "${BASH_SOURCE[0]}")/../../build/tamis}
[[ $TAMIS == /* ]] || TAMIS=$(realpath "$TAMIS")
export TAMIS LC_ALL=C PATH=${TAMIS%/*}:$PATH

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
}

# capture COMMAND...: as `run --separate-stderr`, in a quarter of its time: no other process,
# and bats' trap of each line is off meanwhile.
capture() {
    set +T
    capture_quickly "$@"
    set -T
}
capture_quickly() {
    local IFS=$'\n' - at=$BATS_RUN_TMPDIR/stderr.$BASHPID
    status=0
    if declare -F "$1" >/dev/null; then
        output=$("$@" 2>"$at") || status=$?
    else # bash would fork once more, for bats' traps
        output=$(exec "$@" 2>"$at") || status=$?
    fi
    mapfile -t stderr_lines <"$at"
    stderr=${stderr_lines[*]}
    set -f
    lines=($output)
}

explain() {
    printf 'status %s, wanted %s\nstdout: %s\nstderr: %s\n' "$status" "$1" "$output" \
        "$stderr"
    return 1
}

# ok COMMAND...: status 0, nothing on stderr but the closing line of a command that has one.
# Standard output is in $output.
ok() {
    capture "$@"
    [ "$status" -eq 0 ] && { [ -z "$stderr" ] || is_closing "$stderr"; } || explain 0
}

# tells PATTERN COMMAND...: as ok, and the output matches.
tells() {
    ok "${@:2}" && prints "$1"
}

# gives TEXT COMMAND...: as ok, and the output is the text.
gives() {
    ok "${@:2}" && { [ "$output" = "$1" ] || explain "output $1"; }
}

is_closing() {
    [[ $1 != *$'\n'* && $1 =~ ^(built|listed|added|dropped|packed|unpacked|would pack|nothing)\  ]]
}

# exits STATUS COMMAND...: that status, whatever is said.
exits() {
    capture "${@:2}"
    [ "$status" -eq "$1" ] || explain "$1"
}

# fails STATUS PATTERN COMMAND...: that status, and on stderr one line, of the command that
# was run (`tamis: ...`), that matches the extended regular expression.
fails() {
    local want=$1 pattern=$2
    shift 2
    capture "$@"
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

# lists N: the store has so many segments.
lists() {
    ok tamis ls store && [ "${#lines[@]}" -eq "$1" ] || explain "$1 segments"
}

# holds N [FILES]: as lists, and so many files of filters, or as many.
holds() {
    lists "$1" && [ "$(ls -A store/filters | wc -l)" -eq "${2:-$1}" ] || explain "$* files"
}

# ends_with STATUS PID: a process in the background ends so.
ends_with() {
    status=0
    wait "$2" || status=$?
    [ "$status" -eq "$1" ] || explain "$1"
}

# build_of NAME=LAST or NAME=FIRST..LAST... [OPTION...]: key files of these numbers, and in the
# store, which is made if it is not there, a segment of each.
build_of() {
    local names=()
    [ -d store ] || tamis init store
    while [[ ${1-} == [a-z]*=* ]]; do
        names+=("${1%%=*}")
        seq $(tr -s . ' ' <<<"${1#*=}") >"${1%%=*}"
        shift
    done
    if [ ${#names[@]} -eq 1 ]; then names+=("$names"); else names=(--each "${names[@]}"); fi
    tamis build store "${names[@]}" -q "$@"
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

# by SIGNAL CALL N COMMAND...: the command gets the signal at its N-th system call of that name;
# N+: at those behind it, too. Its output is in .out, its messages are in .err, and the calls in
# .trace; $end is its status, 0 if there were fewer calls.
by() {
    end=0
    (ulimit -c 0 && ASAN_OPTIONS=detect_leaks=0 exec env --default-signal strace -f -o .trace -e "trace=$2" \
        -e "inject=$2:signal=$1:when=$3" "${@:4}") >.out 2>.err || end=$?
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

# waits_with PID FILE: all threads of that tamis wait, and it has the file open. The open() of
# a FIFO would wait without.
waits_with() {
    [ "/proc/$1/exe" -ef "$TAMIS" ] && ls -l "/proc/$1/fd" | grep -q "/$2$" &&
        ! cat /proc/"$1"/task/*/status | grep -q "State:.[^S]"
}

# moved PID rchar|wchar N: it has read or written that many bytes.
moved() {
    [ "$(sed -n "s/^$2: //p" "/proc/$1/io")" -ge "$3" ]
}

# Is this key in segment g?
is_known() {
    [ "$(tamis probe store "$1" --segment g 2>/dev/null)" = "$1"$'\tg\tHIT' ]
}

# hold_writer [KEYS [OPTION...]]: a writer of segment g to which these lines were given, "held" by
# default, and the last one is known. It waits for more on descriptor 7. $pid; .out and .err.
hold_writer() {
    local keys=${1:-held}
    mkfifo input
    # A background job of a shell ignores SIGINT, and all under nohup SIGHUP.
    env --default-signal=INT,TERM,HUP tamis grow store g - "${@:2}" <input >.out 2>.err 3>&- &
    pid=$!
    exec 7>input
    rm input
    echo "$keys" >&7
    soon is_known "${keys##*$'\n'}"
}

# It gets no more, and maybe a signal; its $status.
end_writer() {
    [ $# -eq 0 ] || kill -"$1" "$pid"
    exec 7>&-
    status=0
    wait "$pid" || status=$?
}

# Runs a command as someone who is not root, in a directory that they can reach.
unprivileged() {
    if [ "$(id -u)" -eq 0 ]; then
        setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
    else
        "$@"
    fi
}
