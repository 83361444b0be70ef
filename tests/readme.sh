#!/bin/sh
# Tests what READMEs say; $1 is the build directory. Each room has a README.md, and all that
# it names exists. SPEC.md has each section that is cited. README.md's shell session runs
# in an empty directory: it prints what README.md shows. README.md's C program is compiled
# as README.md says, and asks the store of that session.
set -eu
b=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

die() {
    echo "check-docs: $1" >&2
    exit 1
}

# ---- what READMEs name ----

# find_file NAME ROOM: NAME, which may have a `*`, as seen from its room or from the top.
find_file() {
    for file in $2/$1 $1; do
        [ -e "$file" ] && return
    done
    return 1
}

# check_names ROOM: a line for each link, make target and man page of its README that is
# missing.
check_names() {
    grep -oE '\]\([^)]*\)' "$1/README.md" | sed 's/^](//; s/)$//' | while read -r name; do
        [ -e "$1/$name" ] || echo "$1/README.md links to $name, which is not there"
    done
    grep -oE '(`|^    |sudo )make [a-z-]+' "$1/README.md" | sed 's/.*make //' | sort -u | while read -r name; do
        grep -qE "^([a-z-]+ )*$name( [a-z-]+)*:" Makefile ./*/rules.mk ./*/*/rules.mk ||
            echo "$1/README.md: there is no 'make $name'"
    done
    grep -oE 'tamis(-[a-z]+)?\([1-9]\)' "$1/README.md" | tr '(' . | tr -d ')' | sort -u | while read -r name; do
        [ -e "tools/man/$name.scd" ] || echo "$1/README.md: there is no man page $name"
    done
}

# check_room ROOM: a line for each thing that its README says and that is not so.
check_room() {
    readme=$1/README.md
    [ -f "$readme" ] || { echo "$1 has no README.md"; return; }
    check_names "$1"
    text=$(tr '\n' ' ' <"$readme")
    # Names in capitals stand for any.
    for name in $(printf '%s' "$text" | grep -oE '[A-Za-z0-9_./*-]+\.(awk|bash|bats|c|h|map|md|mk|pl|py|scd|sh|tsv|txt)\>' |
        grep -vE '(NAME|NNN|X)[.-]' | sort -u); do
        find_file "$name" "$1" || echo "$readme names $name, which is not there"
    done
    for name in $(printf '%s' "$text" | grep -oE '[A-Za-z0-9_]+\(\)' | tr -d '()' | sort -u); do
        grep -qx "$name" "$dir/functions" || echo "$readme names $name(), which is not there"
    done
    # In tools/command a file is the command of its name.
    case $1 in tools/command) ;;
    lib* | format | tools/*)
        for file in "$1"/*.c; do
            [ ! -e "$file" ] || grep -qw "$(basename "$file")" "$readme" || echo "$readme lacks $(basename "$file")"
        done ;;
    esac
    # "`function()` in `file`", and "file   function()" of a table.
    printf '%s' "$text" | grep -oE '`[a-z0-9_]+\(\)` in `[^` ]+`|[a-z0-9_/]+\.[ch] +[a-z0-9_]+\(\)' |
        sed -E 's/^`([^`]*)` in `([^`]*)`$/\2 \1/; s/\(\)//' | while read -r name function; do
        if find_file "$name" "$1" && ! grep -q "\\<$function(" "$file"; then
            echo "$readme: $name has no $function()"
        fi
    done
}

grep -ohrE --include='*.[ch]' '\<[A-Za-z0-9_]+\(' format lib fuzz tests tools | tr -d '(' | sort -u >"$dir/functions"
rooms=$(find lib -type d; find tools/* -name README.md -exec dirname {} +)
{
    check_names .
    for room in format fuzz tests tests/bench tools $rooms; do
        check_room "$room"
    done
} >"$dir/wrong"
[ ! -s "$dir/wrong" ] || { sed 's/^/check-docs: /' "$dir/wrong" >&2; exit 1; }

# ---- citations of SPEC.md ----

# Prints a line for each "SPEC.md section 9.1", "SPEC.md 7.3" and "§6", and for each number
# among a planted bug's rules, that no heading of SPEC.md has.
find lib format tools tests fuzz README.md SPEC.md -type f \
    \( -name '*.[ch]' -o -name '*.cc' -o -name '*.md' -o -name '*.sh' -o -name '*.bats' -o -name '*.pl' \
    -o -name '*.py' -o -name '*.scd' -o -name '*.bugs' \) -exec perl -0777 -ne '
    BEGIN {
        open my $spec, "<", "SPEC.md" or die "SPEC.md: $!\n";
        local $/ = "\n";
        while (<$spec>) { $there{$1} = 1 if /^##+ (\d+(?:\.\d+)?)/ }
        die "SPEC.md has no numbered sections\n" if keys %there < 20;
        $number = qr/\d+(?:\.\d+)?/;
    }
    my @cited;
    push @cited, $1 =~ /$number/g
        while /(?:\bSPEC(?:\.md)?,?[\s*]+(?:sections?[\s*]+)?|(?=§))((?:(?:§)? ?$number(?:, | and )?)+)/g;
    if ($ARGV =~ /\.bugs$/) {
        push @cited, $1 =~ /(?<!R)(?<![\d.])$number/g while /^\d+-[a-z0-9-]+: (.*);/mg;
    }
    $there{$_} or print "$ARGV cites section $_, which SPEC.md lacks\n" for @cited;' {} + >"$dir/wrong"
[ ! -s "$dir/wrong" ] || { sed 's/^/check-docs: /' "$dir/wrong" >&2; exit 1; }

# ---- README.md ----

bytes=$(wc -c <README.md)
[ "$bytes" -le 6144 ] || die "README.md has $bytes bytes, more than 6144"

# block LANGUAGE FILE: what README.md has in this language.
block() {
    sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/{/^\`\`\`/d;p;}" README.md >"$2"
    [ -s "$2" ] || die "README.md has no block of $1"
}

# A line is a command, or output if it begins with #.
block sh "$dir/shown"
path=$(realpath "$b"):$PATH
mkdir "$dir/session"
grep -v '^#' "$dir/shown" | (
    cd "$dir/session"
    PATH=$path
    while IFS= read -r command; do
        printf '%s\n' "$command"
        (eval "$command") 2>&1 </dev/null | sed 's/^/# /'
    done
) >"$dir/printed"
diff -u --label 'README.md shows' "$dir/shown" --label 'it prints' "$dir/printed" >&2 ||
    die "README.md's session prints something else"

block c "$dir/ask.c"
lines=$(wc -l <"$dir/ask.c")
[ "$lines" -le 24 ] || die "the README's program has $lines lines"
# shellcheck disable=SC2046 # README.md's words of the compiler
${CC:-cc} -std=c11 -Wall -Wextra -Werror ${SANITIZE:-} \
    $(sed -n "s,^    cc \(-Ilib -o \)ask ask\.c build/,\1$dir/ask $dir/ask.c $b/,p" README.md)
# asks STORE KEY ANSWER
asks() {
    got=$("$dir/ask" "$dir/$1" "$2") || got="exit $?"
    [ "$got" = "$3" ] || die "asked for $2, the README's program said: $got"
}
asks session/store bee "$(sed -n 's/.*, it prints `\([^`]*\)`.*/\1/p' README.md)"
"$b/tamis" init "$dir/store"
printf 'apple\npear\n' | "$b/tamis" build -q "$dir/store" fruit
printf 'leek\n' | "$b/tamis" build -q "$dir/store" vegetables
# The numbers of packed segments come behind a hole.
"$b/tamis" pack -q "$dir/store" vegetables
asks store pear 'read fruit'
asks store leek 'read vegetables'
asks store stone ''
! "$dir/ask" "$dir/nowhere" pear >/dev/null 2>&1 ||
    die "the README's program does not notice a missing store"
# The header is C++ too.
printf '#include <tamis.h>\nint main() { return tamis_version() == 0 || TAMIS_FIELD_TEXT == 0; }\n' >"$dir/cc.cc"
${CXX:-g++} -Wall -Wextra -Werror ${SANITIZE:-} -Ilib -o "$dir/cc" "$dir/cc.cc" "$b/libtamis.a" -llmdb -lxxhash -lm -pthread
"$dir/cc"
for word in 'make demo' 'make install' 'make check' 'make check-all' 'make help' 'pkg-config --cflags --libs tamis'; do
    grep -q "$word" README.md || die "README.md lacks $word"
done
echo "check-docs: the README's session and program are right, and what READMEs name is there"
