#!/bin/sh
# Runs what `make check` leaves out: other compilers, sanitizers and kernels, the long forms of
# the tests that have one, all power cuts, kills, rot and faults, what is installed and
# packaged, and the engines. `make check-all` calls it. It repeats no test in the form in
# which `make check` runs it, so both are needed.
cd "$(dirname "$0")/.." || exit 2
set -u
. tests/steps.sh
begin build/check-all.log

asan='-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer'
tsan='-fsanitize=thread'

step "build with gcc, warnings are errors" build WERROR=-Werror all tests
step "unit tests, the long forms" make unit-long
step "unit tests, AVX2 kernel" make unit-kernel KERNEL=avx2
step "unit tests, scalar kernel" make unit-kernel KERNEL=scalar
step "power cuts" make crash
step "kill -9" make kill
step "rot" make rot
step "every call fails" make faults
step "installed, packaged" make check-install
step "examples" make check-examples
step "benchmark, the smallest form" make check-bench
step "the paper" make check-paper
step "LevelDB" make check-leveldb
step "RocksDB" make check-rocksdb
step "build with clang, warnings are errors" \
    build B=build/clang CC=clang WERROR=-Werror OPT=-O1 all tests
step "unit tests, clang" make B=build/clang CC=clang OPT=-O1 unit-again
step "build with ASan and UBSan" \
    build B=build/asan OPT='-O1 -g' SANITIZE="$asan" WERROR=-Werror all tests
step "unit tests, ASan and UBSan" make B=build/asan OPT='-O1 -g' SANITIZE="$asan" unit-again
step "fuzz corpora, ASan and UBSan" \
    make B=build/asan OPT='-O1 -g' SANITIZE="$asan" MUTATIONS=4 fuzz-replay
step "every call fails, ASan and UBSan" \
    make B=build/asan OPT='-O1 -g' SANITIZE="$asan" faults-brief
step "command line, ASan and UBSan" make B=build/asan OPT='-O1 -g' SANITIZE="$asan" cli
step "threaded tests, TSan" \
    build B=build/tsan OPT='-O1 -g' SANITIZE="$tsan" unit-threads

end
