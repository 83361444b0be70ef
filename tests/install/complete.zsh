#!/usr/bin/env zsh
# Prints the candidates of the zsh completion, one a line: complete.zsh SCRIPT WORD...,
# the last word being typed. Stands in for the completion system.
script=$1
shift
words=("$@")
CURRENT=$#
cur=${words[CURRENT]}
compadd() {
    local -a offered
    case $1 in -a) offered=("${(@P)2}") ;; --) offered=("${@:2}") ;; esac
    offered=("${(@M)offered:#$cur*}")
    (( $#offered )) && print -rl -- $offered
}
_files() { print -rl -- $cur*(N${1:+/}) }
source $script
