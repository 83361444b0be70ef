#!/usr/bin/env bats
# The man pages: they render, and lack nothing that the command, the header and SPEC.md
# have.
load common

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
}

# page N: as plain text, wide enough that nothing is broken.
page() {
    mandoc -Tutf8 -Owidth=400 "$B/man/tamis.$1" | col -b -x
}

# section COMMAND: what tamis.1 says of it; with "" what it says outside of COMMANDS.
section() {
    page 1 | awk -v want="   tamis $1" -v rest="$([ -n "$1" ] || echo 1)" '
        /^[^ ]/ { inside = commands = 0 }
        /^   [^ ]/ { commands = 1; inside = $0 == want }
        inside || (rest && !commands)'
}

library_functions() {
    nm -D --defined-only "$B/libtamis.so" | sed -n 's/.* \(tamis_[a-z_0-9]*\)@@.*/\1(/p'
}

# Options that a text names, one a line: -x and --word.
options_in() {
    grep -oE -- '(^|[[:space:][(,|])--?[a-z0-9][a-z0-9-]*' | grep -oE -- '--?[a-z0-9].*' | sort -u
}

@test "they render without a warning" {
    for page in "$B"/man/*.[1-9]; do
        mandoc -Tlint -W error "$page"
        # But for narrow cells of tables, and for pages, which a terminal has none of.
        groff -k -t -man -ww -W break -Tutf8 -z "$page" 2>&1 | grep -v 'will not fit on one page' >warnings || :
        [ ! -s warnings ] || fail "$page: $(cat warnings)"
        text=$(mandoc -Tutf8 "$page" | col -b -x)
        name=$(basename "${page%.*}")
        grep -qF "$name(${page##*.})" <<<"$text"
        grep -q "^tamis $(version) " <<<"$text"
        [ "$(wc -l <<<"$text")" -gt 80 ]
    done
    [ "$(ls "$B"/man/*.scd | wc -l)" -eq "$(ls "$top"/tools/man/*.scd | wc -l)" ]
}

@test "each command of the source is in tamis.1 with its help" {
    source_commands | while read -r command; do
        section "$command" >section
        grep -qF "tamis $command " section || fail "tamis.1 lacks: $command"
        # The first line of the help after its synopsis.
        "$B/tamis" help $command | sed -n '/^$/,$p' | sed -n 2p >first
        tr -s ' \n' ' ' <section | grep -qF "$(sed 's/ *$//' first)" || fail "$command: tamis.1 lacks: $(cat first)"
    done
}

@test "the options of a command are those that its part of tamis.1 names" {
    section "" | options_in >common
    source_commands | while read -r command; do
        "$B/tamis" $command --list-options | sed 's/=$//' >accepted
        section "$command" >section
        cat common <(options_in <section) >known
        # A short name follows its long one; either will do.
        awk 'NR == FNR { known[$0]; next }
            /^--/ { if (last) print last; last = $0 == "--help" ? "" : $0 }
            $0 in known { last = "" }
            END { if (last) print last }' known accepted >missing
        [ ! -s missing ] || fail "$command: the man page (and 'tamis help') lacks" $(cat missing)
        # An option that begins a line of the list must be accepted. The prose may mention
        # options of other commands.
        grep -E '^ {7}-' section | options_in | grep -vxFf accepted >extra || :
        [ ! -s extra ] || fail "$command: it does not take" $(cat extra)
    done
}

@test "each topic of 'tamis help' is in tamis.1" {
    "$B/tamis" help | tr '\n' ' ' | grep -oE "'(tamis help )?[a-z]+'" | sed "s/.* //; s/'//g" >topics
    [ "$(wc -l <topics)" -ge 3 ]
    page 1 | tr -s ' \n' ' ' >flat
    while read -r topic; do
        "$B/tamis" help "$topic" | sed -n '/^[^ ]/{p;q}' >first
        grep -qF -- "$(cat first)" flat || fail "tamis.1 lacks 'tamis help $topic': $(cat first)"
    done <topics
}

@test "tamis.3 names every function, error and reason" {
    page 3 >flat
    library_functions >names
    grep -oE 'TAMIS_ERR_[A-Z_]+ =' "$top/lib/tamis.h" | sed 's/ =//' >>names
    echo TAMIS_BEHIND >>names
    [ "$(wc -l <names)" -gt 80 ]
    while read -r name; do
        grep -qF "$name" flat || fail "tamis.3 lacks $name"
    done <names
}

@test "tamis.5 has every field of the tables of SPEC.md" {
    page 5 >flat
    for table in identity_disk commit_disk stage_disk; do
        sed -n "/^<!-- table: $table -->/,/^\$/s/^| \([0-9]*\) | \([a-z_0-9]*\) |.*/\2 \1/p" "$top/SPEC.md" >fields
        [ "$(wc -l <fields)" -ge 10 ]
        while read -r field offset; do
            grep -qE "^ *$field, .* at byte $offset\$" flat || fail "tamis.5 lacks $field of $table"
        done <fields
    done
}

@test "texts name functions of the library, tamis.7 commands and options that there are" {
    cd "$top" || return 1
    known=$(library_functions && grep -ohE 'tamis_inline_[a-z_]+\(|tamis_[a-z]+_fn\(' lib/tamis*.h lib/tamis/*.h)
    for text in {README,SPEC,lib/README,lib/*/README,tools/README}.md lib/tamis{,_inline}.h lib/tamis/*.h tools/man/*.scd; do
        gone=$(tr -d '\\*' <"$text" | grep -oE '\<tamis_[a-z_0-9]+\(' | grep -vxF "$known") || continue
        fail "$text: there is no" $gone
    done
    cd - || return 1
    page 7 >flat
    grep -oE 'tamis (verify|repair|backup|build|stat|plan) [^.:;]*' flat | while read -r _ command words; do
        options_in <<<"$words" | sed "s/^/$command /"
    done >options
    [ "$(wc -l <options)" -ge 5 ]
    while read -r command option; do
        "$B/tamis" "$command" --list-options | sed 's/=$//' | grep -qx -- "$option" || fail "$command has no $option"
    done <options
}
