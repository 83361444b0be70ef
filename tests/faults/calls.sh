#!/bin/sh
# Compares calls.txt with what the library's objects call: `calls.sh OBJECT...`, or
# prints those that are wrapped: `calls.sh --wrapped`. Pure functions (of memory, text and
# numbers) are named here.
set -eu
pure='memchr memcmp memcpy memmove memset strchr strcmp strlen strncmp strrchr strspn
    strtoull strftime gmtime_r snprintf vsnprintf ceil exp expm1 floor fmax fmin llround
    log log10 log1p log2 pow sqrt sigaddset sigdelset sigemptyset sigfillset sigismember sigorset
    XXH3_64bits XXH3_64bits_withSeed XXH3_128bits'
list=$(dirname "$0")/calls.txt
# Calls of calls.h that fail; LMDB's own calls, "populate" and "space" are no functions.
fail=$(sed -n '/never fail/q; s/^    X(\([a-z0-9_]*\),.*/\1/p' "$(dirname "$0")/wrap/calls.h" |
    grep -vE '^(lmdb_.*|populate|space)$')
if [ "$1" = --wrapped ]; then
    printf '%s\n' $fail
    awk '$2 == "pair" || $2 == "seen:" { print $1 }' "$list"
    exit
fi
called=$(mktemp) known=$(mktemp)
trap 'rm -f "$called" "$known"' EXIT
nm --defined-only "$@" | awk 'NF == 3 { print $3 }' | sort -u >"$known"
# Names with two underscores are the compiler's own.
nm -u "$@" | awk '$1 == "U" && $2 !~ /^(__|_GLOBAL_)/ { print $2 }' | sort -u |
    comm -23 - "$known" >"$called"
{
    sed '/^#/d; s/ .*//' "$list"
    printf '%s\n' $pure $fail
} | sort -u >"$known"
new=$(comm -23 "$called" "$known")
gone=$({ sed '/^#/d; s/ .*//' "$list"; printf '%s\n' $fail; } | sort -u | comm -13 "$called" -)
[ -z "$new" ] || echo "called, and not in tests/faults/calls.txt:" $new
[ -z "$gone" ] || echo "in tests/faults/calls.txt, and not called:" $gone
[ -z "$new$gone" ] || exit 1
echo "check-calls: $(wc -l <"$called") functions are called, $(echo "$fail" | wc -l) of them made to fail"
