#!/usr/bin/env bats
# The ABI against the committed record, and that a change of it is seen.
load common

@test "the ABI is the one that is recorded" {
    "$top/tests/install/abi.sh" compare "$B/libtamis.so.$(version)" "$top/tests/install/abi.xml"
}

@test "the record has public types only, and no path of a machine" {
    record=$top/tests/install/abi.xml
    grep -q "class-decl name='tamis_diag' size" "$record"
    ! grep -E "class-decl name='tamis_(store|writer|builder|filter|snapshot|edit)' size" "$record" || fail "a private type"
    ! grep -E "filepath=|comp-dir-path|path='/|architecture=" "$record"
}

# planted SED: the record, changed so, no longer fits the library.
planted() {
    sed -E "$1" "$top/tests/install/abi.xml" >"$BATS_TEST_TMPDIR/abi.xml"
    ! cmp -s "$top/tests/install/abi.xml" "$BATS_TEST_TMPDIR/abi.xml" || fail "nothing was planted: $1"
    ! "$top/tests/install/abi.sh" compare "$B/libtamis.so.$(version)" "$BATS_TEST_TMPDIR/abi.xml" || fail "$1: not seen"
}

@test "a function more or less, another signature, field or constant is seen" {
    planted "s/tamis_version/tamis_edition/g"
    planted "/elf-symbol name='tamis_version'/d; /function-decl name='tamis_version'/,/function-decl>/d"
    planted "/function-decl name='tamis_strerror'/,/function-decl>/s/<parameter .*//"
    planted "/class-decl name='tamis_diag'/,/class-decl>/s/name='has_offset'/name='with_offset'/"
    planted "/class-decl name='tamis_diag'/,/class-decl>/s/(layout-offset-in-bits=')64/\132/"
    planted "s/(enumerator name='TAMIS_DAMAGED' value=')2/\13/"
    planted "s/libtamis\.so\.0/libtamis.so.9/"
}
