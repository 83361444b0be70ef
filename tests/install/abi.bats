#!/usr/bin/env bats
# The ABI against the committed record, and that a change of it is seen.
load common

compare() { "$top/tests/install/abi.sh" compare "$B/libtamis.so.$(version)" "$1"; }

@test "the ABI is the one that is recorded" {
    compare "$top/tests/install/abi.txt"
}

@test "the record has public types only" {
    grep -q "^struct tamis_diag " "$top/tests/install/abi.txt"
    ! grep -E "^struct tamis_(store|writer|builder|filter|snapshot|edit) " "$top/tests/install/abi.txt" || fail "a private type"
}

# planted SED: the record, changed so, no longer fits the library.
planted() {
    sed -E "$1" "$top/tests/install/abi.txt" >"$BATS_TEST_TMPDIR/abi.txt"
    ! cmp -s "$top/tests/install/abi.txt" "$BATS_TEST_TMPDIR/abi.txt" || fail "nothing was planted: $1"
    ! compare "$BATS_TEST_TMPDIR/abi.txt" || fail "$1: not seen"
}

@test "a function more or less, another signature, field or constant is seen" {
    planted "s/^tamis_version /tamis_edition /"
    planted "/^tamis_version /d"
    planted "s/^(tamis_version) TAMIS_0/\1 TAMIS_1/"
    planted "/^tamis_strerror /s/\(int\)/(void)/"
    planted "/^struct tamis_diag /,/^struct tamis_domain /s/ has_offset/ with_offset/"
    planted "/^struct tamis_diag /s/; 4 int os_errno/; 12 int os_errno/"
    planted "s/TAMIS_DAMAGED 2/TAMIS_DAMAGED 3/"
    planted "s/libtamis\.so\.0/libtamis.so.9/"
}
