#!/usr/bin/env bash
# What the bash completion offers: complete.bash SCRIPT WORD..., the last word being the
# one that is typed. A candidate a line.
set -u
# shellcheck disable=SC1090
source "$1" || exit
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
# As the shell calls what `complete -F` names.
compopt() { :; }
eval "$(complete -p tamis | sed -n 's/.*-F \([^ ]*\) .*/\1/p')" tamis
[ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\n' "${COMPREPLY[@]}"
