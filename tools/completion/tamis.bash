# bash completion of tamis. Commands, options and arguments are what the command itself
# says: `tamis help`, `tamis COMMAND --list-options`, the first line of `tamis help
# COMMAND`; names of segments from `tamis ls STORE --names`.

# A word as it was typed, without its quotes; nothing is executed.
_tamis_plain() {
    local word=$1
    case $word in
    \'*) word=${word#\'} word=${word%\'} ;;
    \"*) word=${word#\"} word=${word%\"} ;;
    *)
        word=${word/#\~\//$HOME/}
        word=$(sed 's/\\\(.\)/\1/g' <<<"$word") ;;
    esac
    printf '%s' "$word"
}

# Names of the store $1 that begin with $2, as they must be typed.
_tamis_segments() {
    local store=$1 begin=$2 name start
    start=$(_tamis_plain "$begin")
    while IFS= read -r name; do
        printf -v name %b "$name" # \xHH are bytes
        [[ $name == "$start"* ]] || continue
        [[ $begin == [\'\"]* ]] || printf -v name %q "$name"
        COMPREPLY+=("$name")
    done < <("$tamis" ls "$store" --names 2>/dev/null)
    declare -F __ltrim_colon_completions >/dev/null && __ltrim_colon_completions "$begin"
}

# Names the argument number $1 of the command: a word of its synopsis. If the synopsis has
# several forms, take the form with an option of the line, else the first. With --each and
# the like, every word after the store is a file.
_tamis_argument() {
    local usage way token skip='' n=0 ways=() last=''
    if [[ $1 -gt 1 && " ${words[*]:1:cword-1} " =~ ' --'([a-z]+-)?each' ' ]]; then
        printf KEYFILE
        return
    fi
    usage=$("$tamis" help $command 2>/dev/null | head -n 1 |
        sed -E ':a; s/(\[[^][]*) \| /\1 |/; ta')
    usage=${usage#"usage: tamis $command "}
    while [[ $usage == *' | '* ]]; do
        ways+=("${usage%%' | '*}")
        usage=${usage#*' | '}
    done
    ways+=("$usage")
    way=${ways[0]}
    for usage in "${ways[@]:1}"; do
        for token in "${words[@]:1:cword-1}"; do
            [[ $token == --* && " $usage " == *" $token "* && " ${ways[0]} " != *" $token "* ]] && way=$usage
        done
    done
    for token in $way; do
        token=${token#[}
        if [[ -n $skip ]]; then
            skip=''
        elif [[ $token == -* ]]; then
            [[ $options == *$'\n'"$token="$'\n'* ]] && skip=1
        else
            n=$((n + 1)) last=$token
            [[ $n -eq $1 ]] && break
        fi
    done
    [[ $n -eq $1 || $last == *...* ]] && printf '%s' "$last"
}

_tamis() {
    local tamis command='' options='' cur cword words i first=2 n=0 store='' value='' kind=''
    COMPREPLY=()
    if declare -F _get_comp_words_by_ref >/dev/null; then
        _get_comp_words_by_ref -n := -w words -i cword cur
    else
        words=("${COMP_WORDS[@]}") cword=$COMP_CWORD cur=${COMP_WORDS[COMP_CWORD]}
    fi
    tamis=$(type -P -- "$(_tamis_plain "${words[0]}")") || return 0
    command=${words[1]}
    if [[ $cword -eq 1 ]]; then
        mapfile -t COMPREPLY < <(compgen -W "help --help --version $("$tamis" help |
            sed -n 's/^  tamis \([a-z]*\).*/\1/p' | sort -u)" -- "$cur")
        return 0
    elif [[ $command == help && $cword -eq 2 ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$("$tamis" help | tr '\n' ' ' |
            grep -oE "  tamis [a-z]+|'(tamis help )?[a-z]+'" | sed "s/.* //; s/'//g" | sort -u)" -- "$cur")
        return 0
    elif [[ ( $command == file && $cword -eq 2 ) || ( "$command ${words[2]}" == 'help file' && $cword -eq 3 ) ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$("$tamis" help file |
            sed -n 's/^  tamis file \([a-z]*\).*/\1/p')" -- "$cur")
        return 0
    elif [[ $command == help || $command == -* ]]; then
        return 0
    elif [[ $command == file ]]; then
        command+=" ${words[2]}" first=3
    fi
    options=$'\n'$("$tamis" $command --list-options 2>/dev/null)$'\n'

    for ((i = first; i < cword; i++)); do
        if [[ ${words[i]} == -?* ]]; then
            if [[ $options == *$'\n'"${words[i]}="$'\n'* ]]; then
                i=$((i + 1))
                [[ $i -eq $cword ]] && value=${words[i - 1]}
            fi
        else
            n=$((n + 1))
            [[ $n -eq 1 ]] && store=$(_tamis_plain "${words[i]}")
        fi
    done
    if [[ -n $value ]]; then
        kind=$("$tamis" help $command | grep -oE -m 1 -- "$value [A-Z]+" | head -n 1)
    elif [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "${options//=/}" -- "$cur")
        return 0
    else
        kind=$(_tamis_argument $((n + 1)))
    fi
    case ${kind##* } in
    STORE | DIR) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    *FILE*) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    SEGMENT* | OLD) _tamis_segments "$store" "$cur" ;;
    esac
}

complete -F _tamis tamis
