#!/bin/sh
# Writes a man page's scdoc source: expand.sh TEMPLATE TAMIS. Lines of the template that
# begin with @ are replaced, so that nothing is written twice; the first gets the version:
#   @closing         the last words of `tamis help`, after its list
#   @commands        what `tamis help COMMAND` says of every command
#   @help TOPIC      `tamis help TOPIC`
#   @comment, @functions, @codes ENUM    of lib/tamis.h and its parts
#   @table NAME      of SPEC.md
#   @sections        of json.fields
set -eu
template=$1 tamis=$2
cd "$(dirname "$0")/../.."
here=tools/man

help() {
    text=$("$tamis" help "$@")
    printf '%s\n' "$text" | awk -f $here/help.awk
}

list=$("$tamis" help)
commands=$({ printf '%s\n' "$list"; "$tamis" help file; } | sed -n 's/^  tamis \([a-z]*\( [a-z]*\)\{0,1\}\)  *.*/\1/p' | grep -vx file)
parts=$(sed -n 's,^#include "\(tamis/.*\)",lib/\1,p' lib/tamis.h)
version=$(sed -n 's/^.define TAMIS_VERSION "\(.*\)"$/\1/p' lib/tamis.h)
IFS= read -r line <"$template"
printf '%s "tamis %s"\n' "$line" "$version"
sed 1d "$template" | while IFS= read -r line; do
    case $line in
    @closing) printf '%s\n' "$list" | sed -n '/^  tamis /,$p' | sed '/^  tamis /d' | awk -f $here/help.awk ;;
    @commands)
        printf '%s\n' "$commands" | while read -r command; do
            printf '\n## tamis %s\n\n' "$command"
            # shellcheck disable=SC2086 # "file show" is two words
            help $command || exit
        done ;;
    "@help "*) help "${line#* }" ;;
    @comment) awk -v part=comment -f $here/header.awk lib/tamis.h ;;
    @functions) awk -f $here/header.awk lib/tamis.h $parts ;;
    "@codes "*) awk -v part=codes -v enum="${line#* }" -f $here/header.awk lib/tamis.h ;;
    @sections)
        sed -n 's/^section //p' $here/json.fields | while IFS= read -r section; do
            printf '\n## %s\n\n' "$section"
            awk -v scdoc=1 -v section="$section" -f $here/fields.awk $here/json.fields || exit
        done ;;
    "@table "*) awk -v table="${line#* }" -f $here/table.awk SPEC.md ;;
    @*) echo "$template: what is '$line'?" >&2; exit 2 ;;
    *) printf '%s\n' "$line" ;;
    esac
done
