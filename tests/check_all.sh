#!/bin/sh
# Runs what `make check` leaves out: other compilers, sanitizers and kernels, the long forms of
# the tests that have one, all power cuts, kills, rot and faults, what is installed and
# packaged, and the engines. `make check-all` calls it. It repeats no test in the form in
# which `make check` runs it, so both are needed.
cd "$(dirname "$0")/.." || exit 2
set -u
. tests/steps.sh
begin build/check-all.log

# A sanitizer names lines, so it needs these of the debug information, and no more. Later clangs
# check the types of functions in C as well, which gcc does not.
asan='-fsanitize=address,undefined -fno-sanitize=function -fno-sanitize-recover=all -fno-omit-frame-pointer'
tsan='-fsanitize=thread'
# with_asan TARGET...: the second compiler, and sanitizers in what it makes.
with_asan() {
    make "$jobs" B=build/asan CC=clang OPT='-O1 -g1' SANITIZE="$asan" WERROR=-Werror "$@"
}

of_this_build() {
    step "unit tests, the long forms" make unit-long
    step "installed, packaged; examples; gdb; the paper; LevelDB; RocksDB" \
        side_by_side check-install check-examples check-debug check-paper check-leveldb check-rocksdb
    step "unit tests, AVX2 kernel" make unit-kernel KERNEL=avx2
    step "unit tests, scalar kernel" make unit-kernel KERNEL=scalar
    step "benchmark, the smallest form" make check-bench
    # With another seed than in check.sh, so that none is tried twice. check-long has more.
    step "power cuts" make check-crash STATES=20000 SEED=2
    step "kill -9" make kill
    step "rot" make rot EVERY=64 SEED=2
    step "every call fails" make faults
}
of_other_builds() {
    step "build with clang, ASan and UBSan, warnings are errors" with_asan all tests
    step "unit tests, clang, ASan and UBSan" with_asan unit-again
    step "command line, clang, ASan and UBSan" with_asan cli
    step "fuzz corpora, clang, ASan and UBSan" with_asan MUTATIONS=4 fuzz-replay
    step "every call fails, clang, ASan and UBSan" with_asan faults-brief
    # Programs that run with TSan are built with it, and no others.
    step "threaded tests, TSan" \
        build B=build/tsan OPT='-O1 -g1' SANITIZE="$tsan" unit-threads
}

step "build with gcc, warnings are errors" build WERROR=-Werror all tests || { end; exit 1; }
streams of_this_build of_other_builds
end
