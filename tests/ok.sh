# shellcheck shell=sh
# For checks of a program that makes files: sourced by a script that has set $dir. It makes
# that directory anew, counts what passes and what fails, and removes it in the end.
rm -rf "$dir" && mkdir -p "$dir" || exit 2
passed=0 failed=0

# ok NAME COMMAND...: one check.
ok() {
    name=$1
    shift
    if "$@" >"$dir/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
        cat "$dir/log"
    fi
}
