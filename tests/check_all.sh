#!/bin/sh
# Runs what `make check` leaves out: other compilers, sanitizers and kernels, the long forms of
# the tests that have one, all power cuts, kills, rot and faults, what is installed and
# packaged, and the engines. `make check-all` calls it. It repeats no test in the form in
# which `make check` runs it, so both are needed.
cd "$(dirname "$0")/.." || exit 2
set -u
. tests/steps.sh
begin build/check-all.log

# A sanitizer names lines, so it needs these of the debug information, and no more.
asan='-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer'
tsan='-fsanitize=thread'
# with_asan TARGET... The command begins thousands of times, so it has their libraries.
with_asan() {
    make "$jobs" B=build/asan OPT='-O1 -g1' SANITIZE="$asan" \
        COMMAND_LINK='-static-libasan -static-libubsan' WERROR=-Werror "$@"
}

of_this_build() {
    step "unit tests, the long forms" make unit-long
    step "installed, packaged; examples; gdb; the paper; LevelDB; RocksDB" \
        side_by_side check-install check-examples check-debug check-paper check-leveldb check-rocksdb
    step "unit tests, AVX2 kernel" make unit-kernel KERNEL=avx2
    step "unit tests, scalar kernel" make unit-kernel KERNEL=scalar
    step "benchmark, the smallest form" make check-bench
    # With another seed than in check.sh, so that none is tried twice. check-long has millions.
    step "power cuts" make check-crash STATES=20000 SEED=2
    step "kill -9" make kill
    step "rot" make rot EVERY=64 SEED=2
    step "every call fails" make faults
}
of_other_builds() {
    # What runs with them is built with them, and no other program.
    step "build, unit tests, ASan and UBSan" with_asan all unit-again
    step "command line, ASan and UBSan" with_asan cli
    step "fuzz corpora, ASan and UBSan" with_asan MUTATIONS=4 fuzz-replay
    step "every call fails, ASan and UBSan" with_asan faults-brief
    step "build with clang, warnings are errors" \
        build B=build/clang CC=clang WERROR=-Werror OPT=-O1 all tests
    step "unit tests, clang" make B=build/clang CC=clang OPT=-O1 unit-again
    step "threaded tests, TSan" \
        build B=build/tsan OPT='-O1 -g1' SANITIZE="$tsan" unit-threads
}

step "build with gcc, warnings are errors" build WERROR=-Werror all tests || { end; exit 1; }
streams of_this_build of_other_builds
end
