#!/usr/bin/env bats
# Completion in bash and zsh, as installed: commands, options, files and segments.
load common

setup_file() {
    install_tamis PREFIX="$prefix"
}

setup() {
    export PATH="$prefix/bin:$PATH"
    cd "$BATS_TEST_TMPDIR" || return 1
    printf 'a\n' >keys
    mkdir directory
    tamis init store
    for name in plain 'with space' "it's" 'back\slash' 'a:b' café; do
        tamis build store "$name" keys
    done
}

in_bash() { "$top/tests/install/complete.bash" "$prefix/share/bash-completion/completions/tamis" "$@"; }
in_zsh() { zsh -f "$top/tests/install/complete.zsh" "$prefix/share/zsh/site-functions/_tamis" "$@"; }

# offers WANTED WORD...: lines of WANTED, in any order, in both shells.
offers() {
    local wanted=$1 shell
    shift
    for shell in in_bash in_zsh; do
        diff <(grep . <<<"$wanted" | sort -u) <($shell "$@" | sort -u) || fail "$shell: $*"
    done
}

@test "they load" {
    bash -n "$prefix/share/bash-completion/completions/tamis"
    zsh -n "$prefix/share/zsh/site-functions/_tamis"
    XDG_DATA_DIRS="$prefix/share" bash -c '. /usr/share/bash-completion/bash_completion
        _completion_loader tamis || [ $? = 124 ]; complete -p tamis'
    zsh -fc "fpath=('$prefix/share/zsh/site-functions' \$fpath); autoload -Uz compinit
        compinit -u -D; [[ \$_comps[tamis] = _tamis ]] || exit; autoload +X _tamis"
}

@test "every command of the source, and nothing else" {
    offers "help
--help
--version
$(source_commands | sed 's/ .*//')" tamis ''
    offers "$(source_commands | sed -n 's/^file //p')" tamis file ''
    offers "backup
build" tamis b
    for shell in in_bash in_zsh; do
        $shell tamis help '' | grep -qx json
        $shell tamis help '' | grep -qx repair
    done
    offers '' tamis nonsense ''
}

@test "every option of every command" {
    source_commands | while read -r command; do
        offers "$(tamis $command --list-options | sed 's/=$//')" tamis $command -
    done
    offers --fpr tamis build store x --fp
}

@test "stores, files, directories, by the synopsis" {
    all='directory
keys
store'
    for shell in in_bash in_zsh; do
        diff <($shell tamis ls '' | sed 's,/$,,' | sort) <(printf 'directory\nstore\n')
        diff <($shell tamis backup store '' | sed 's,/$,,' | sort) <(printf 'directory\nstore\n')
    done
    offers "$all" tamis file show ''
    offers "$all" tamis build store x ''
    offers "$all" tamis build store --each ''
    offers "$all" tamis verify --against-each store ''
    offers "$all" tamis probe store --keys ''
    offers "$all" tamis attach store x ''
    offers '' tamis probe store ''
    offers '' tamis plan --keys ''
    offers '' tamis build store x --fpr ''
}

@test "names of segments, as they must be typed" {
    for line in 'ls store' 'drop ./store' 'build store' 'seal store x' 'probe --segment'; do
        [ "$line" != 'probe --segment' ] || line='probe store --segment'
        # zsh quotes by itself.
        # shellcheck disable=SC2086
        diff <(in_zsh tamis $line '') <(printf '%s\n' a:b 'back\slash' café "it's" plain 'with space')
        diff <(in_bash tamis $line '' | while read -r name; do eval "printf '%s\n' $name"; done) \
            <(in_zsh tamis $line '')
    done
    offers plain tamis ls store p
    [ "$(in_bash tamis ls store 'with\ ')" = 'with\ space' ]
    offers '' tamis ls nowhere ''
}
