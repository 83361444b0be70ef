#!/usr/bin/env bash
# Prints the candidates of the bash completion, one a line: complete.bash SCRIPT WORD...,
# the last word being typed.
set -u
# shellcheck disable=SC1090
source "$1" || exit
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
# As the shell calls what `complete -F` names.
compopt() { :; }
eval "$(complete -p tamis | sed -n 's/.*-F \([^ ]*\) .*/\1/p')" tamis
[ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\n' "${COMPREPLY[@]}"
