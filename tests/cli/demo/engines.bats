# The demo's part with engines: which of them it finds, and that a failure is one. Packages,
# make and the programs are stand-ins; tests/demo has the real ones.
load ../common

ENGINES=$(realpath "$BATS_TEST_DIRNAME/../../../tools/demo/engines.sh")

# packages [NAME STATUS]...: dpkg knows these and no other.
packages() {
    export DPKG_ADMINDIR=$PWD/dpkg
    mkdir -p dpkg/info dpkg/updates
    : >dpkg/status
    while [ $# -gt 0 ]; do
        printf 'Package: %s\nStatus: %s\nVersion: 1\nArchitecture: all\n%s\n\n' "$1" "$2" \
            $'Maintainer: nobody <a@b>\nDescription: none' >>dpkg/status
        shift 2
    done
}

# make_says BODY: a make that runs BODY with the target in $target.
make_says() {
    export MAKE=$PWD/make
    printf '#!/bin/bash\nfor target; do :; done\necho "$target" >>%q\n%s\n' "$PWD/made" "$1" >make
    chmod +x make
}

# program ENGINE BODY: the program that make would have built.
program() {
    mkdir -p build/tools/demo
    printf '#!/bin/bash\n%s\n' "$2" >build/tools/demo/blocks_"$1"
    chmod +x build/tools/demo/blocks_"$1"
}

here="install ok installed"

@test "no engine: one line says what to install, and nothing is built" {
    packages librocksdb-dev "deinstall ok config-files"
    make_says "exit 1"
    ok "$ENGINES" build a.list
    [ "${#lines[@]}" -eq 1 ]
    prints 'Neither engine is installed: sudo apt-get install librocksdb-dev \(or libleveldb-dev\)$'
    [ ! -e made ]
}

@test "both engines: each gets a directory and the lists" {
    packages librocksdb-dev "$here" libleveldb-dev "$here"
    make_says "echo '  CXX   build/x.o'"
    for engine in rocksdb leveldb; do
        program $engine "[ -d \"\$1\" ] && echo $engine \"\${@:2}\""
    done
    export TMPDIR=$PWD/tmp
    mkdir tmp
    gives $'rocksdb a.list b.list\n\nleveldb a.list b.list' "$ENGINES" build a.list b.list
    [ "$(cat made)" = $'demo-rocksdb\ndemo-leveldb' ]
    [ -z "$(ls tmp)" ]
}

@test "LevelDB alone, and make says what it installs" {
    packages libleveldb-dev "$here"
    make_says "echo installing what is missing: apt-get install g++; echo CXX"
    program leveldb "echo leveldb"
    gives $'installing what is missing: apt-get install g++\nleveldb' "$ENGINES" build a.list
    [ "$(cat made)" = demo-leveldb ]
}

@test "a program that does not build is a failure, with what make said" {
    packages librocksdb-dev "$here"
    make_says "echo 'x.cc:1: error' >&2; exit 2"
    program rocksdb "echo an old one"
    exits 3 "$ENGINES" build a.list
    [ -z "$output" ]
    [ "$stderr" = $'x.cc:1: error\ndemo: FAILED: the program for rocksdb does not build' ]
}

@test "a program that fails is a failure" {
    packages librocksdb-dev "$here" libleveldb-dev "$here"
    make_says true
    program rocksdb "echo 'demo: FAILED: a path' >&2; exit 1"
    program leveldb "echo leveldb"
    exits 3 "$ENGINES" build a.list
    [ "$stderr" = $'demo: FAILED: a path\ndemo: FAILED: blocks that rocksdb reads' ]
}
