#!/bin/sh
# Runs what neither tests/check.sh nor tests/check_all.sh has time for: many more places and
# random states for each way to hurt a store, and whether bugs are caught, planted and made by
# machine. `make check-long` calls it, before an issue is called resolved: at most 100 minutes on
# two cores. As root it also cuts the power of real file systems.
cd "$(dirname "$0")/.." || exit 2
set -u
. tests/steps.sh
begin build/check-long.log

of_the_store() {
    step "power cuts, two hundred thousand states" make check-crash STATES="${STATES:-200000}"
    step "rot, every fourth bit and length" make rot EVERY=4
    step "kill -9, thousands" make check-kill
    step "unit tests, the long forms, another time" make unit-long
    step "a hundred million answers, each in every way" env TAMIS_TEST_PAIRS=100000000 build/tests/test_packs_alike
}
of_the_machine() {
    step "cancelled and stopped at every call" make stops
    if [ "$(id -u)" -eq 0 ]; then
        step "power cuts of real file systems" make check-powercut STATES=2000
        step "disks that fail below real file systems" make check-errors
    else
        printf '\n== not run, for they need root: check-powercut check-errors\n'
    fi
    step "other processors" make check-arch
}

step "build with gcc, warnings are errors" build WERROR=-Werror all tests || { end; exit 1; }
streams of_the_store of_the_machine
step "mutants that tests killed before" make check-mutants DRAWN=1
step "planted bugs" make check-mutants
step "planted bugs of the LevelDB bridge" make check-leveldb-planted
step "planted bugs of the RocksDB bridge" make check-rocksdb-planted

end
