#!/usr/bin/env bats
# make install and uninstall, and programs that know the library by pkg-config alone.
load common

setup_file() {
    install_tamis PREFIX="$prefix"
}

setup() {
    export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
    cd "$BATS_TEST_TMPDIR" || return 1
}

# compile OUT COMPILER WORD...: pkg-config's words are quoted for the shell.
compile() {
    local out=$1 compiler=$2 flags
    shift 2
    flags=$(pkg-config "${pkg[@]}" --cflags --libs "${package:-tamis}")
    eval "$compiler -Wall -Wextra -Wpedantic -Werror -o $out $* $flags"
}

@test "each thing is in its place" {
    v=$(version)
    sort >wanted <<EOF
bin/tamis
include/tamis.h
include/tamis_inline.h
$(cd "$top/lib" && printf 'include/%s\n' tamis/*.h)
lib/libtamis-filter.a
lib/libtamis.a
lib/libtamis.so
lib/libtamis.so.${v%%.*}
lib/libtamis.so.$v
lib/pkgconfig/tamis-filter.pc
lib/pkgconfig/tamis.pc
share/bash-completion/completions/tamis
share/doc/tamis/LICENSE
share/doc/tamis/README.md
share/doc/tamis/SPEC.md
share/doc/tamis/manifest
$(cd "$top/tools/man" && printf '%s\n' *.scd | sed 's,\(.*\)\.\(.\)\.scd$,share/man/man\2/\1.\2,')
share/zsh/site-functions/_tamis
EOF
    (cd "$prefix" && find . ! -type d | sed 's,^\./,,' | sort) | diff wanted -
    [ -z "$(find "$prefix" ! -type l ! -perm -444)" ]
    [ -z "$(find "$prefix" -perm /022 ! -type l)" ]
}

@test "the version is one: command, pkg-config, file name, soname" {
    v=$(version)
    [ "$("$prefix/bin/tamis" --version)" = "tamis $v" ]
    [ "$(pkg-config --modversion tamis)" = "$v" ]
    [ "$(pkg-config --modversion tamis-filter)" = "$v" ]
    objdump -p "$prefix/lib/libtamis.so.$v" | grep -qE "SONAME +libtamis\.so\.${v%%.*}$"
}

@test "a C and a C++ program, shared" {
    pkg=()
    pkg-config --libs-only-l tamis | grep -qx -- '-ltamis *'
    compile c "$CC -std=c11" "$top/tests/install/use.c"
    compile cc "$CXX -std=c++11 -x c++" "$top/tests/install/use.c"
    for program in c cc; do
        readelf -d $program | grep -q "NEEDED.*libtamis.so.$(version | cut -d. -f1)\]"
        [ "$(readelf -d $program | grep -cE 'NEEDED.*(lmdb|xxhash)')" -eq 0 ]
        [ "$(LD_LIBRARY_PATH="$prefix/lib" ./$program "store$program")" = "$(version) right" ]
        ! ./$program elsewhere 2>/dev/null || fail "it runs without the library"
    done
}

@test "a C and a C++ program, static" {
    pkg=(--static)
    compile c "$CC -std=c11 -static" "$top/tests/install/use.c"
    compile cc "$CXX -std=c++11 -static -x c++" "$top/tests/install/use.c"
    for program in c cc; do
        ! readelf -d $program | grep NEEDED || fail "it is not static"
        [ "$(./$program "store$program")" = "$(version) right" ]
    done
}

@test "inline probes without a warning, for each processor that a compiler is told" {
    pkg=()
    for target in '' $([ "$(uname -m)" != x86_64 ] || echo -mavx2 -mavx512f); do
        for compiler in "$CC -std=c11" "$CXX -std=c++11 -x c++"; do
            compile use.o "$compiler -O2 $target -c" "$top/tests/install/use.c"
        done
    done
}

@test "the filters alone, without LMDB" {
    pkg=() package=tamis-filter
    compile c "$CC -std=c11" "$top/tests/install/filter.c"
    ! readelf -d ./c | grep NEEDED | grep -E 'lmdb|tamis' || fail "it needs LMDB"
    ./c one.tamis
    "$prefix/bin/tamis" file verify one.tamis
}

@test "installing again builds nothing and changes nothing" {
    (cd "$prefix" && find . -exec ls -ld --time-style=+ {} +) >before
    [ -z "$(install_tamis V= PREFIX="$prefix" | grep -v '^tamis \|^programs that')" ]
    (cd "$prefix" && find . -exec ls -ld --time-style=+ {} +) | diff before -
}

@test "with DESTDIR nothing knows of it, and nothing is left" {
    install_tamis DESTDIR="$PWD/root" PREFIX=/opt/x LIBDIR=/opt/x/lib64
    [ -f root/opt/x/lib64/libtamis.a ]
    ! grep -rqF "$PWD" root/opt/x/lib64/pkgconfig root/opt/x/share || fail "DESTDIR is in a file"
    grep -qx 'libdir=${prefix}/lib64' root/opt/x/lib64/pkgconfig/tamis.pc
    uninstall_tamis DESTDIR="$PWD/root" PREFIX=/opt/x
    [ -z "$(find root -mindepth 1)" ]
}

@test "uninstall leaves what was there, and directories that others use" {
    mkdir -p p/bin p/share/man
    touch p/bin/other
    install_tamis PREFIX="$PWD/p"
    touch p/share/doc/other p/share/doc/tamis/mine
    uninstall_tamis PREFIX="$PWD/p"
    (cd p && find . | sort) >left
    diff left - <<'EOF'
.
./bin
./bin/other
./share
./share/doc
./share/doc/other
./share/doc/tamis
./share/doc/tamis/mine
./share/man
EOF
}

@test "a newer version takes away what only the older one had" {
    install_tamis PREFIX="$PWD/p"
    touch p/lib/libtamis.so.0.0.9
    echo "f $PWD/p/lib/libtamis.so.0.0.9" >>p/share/doc/tamis/manifest
    install_tamis PREFIX="$PWD/p"
    [ ! -e p/lib/libtamis.so.0.0.9 ]
    uninstall_tamis PREFIX="$PWD/p"
    [ ! -e p ]
}

# refuses PATTERN VARIABLE=VALUE...: one line, beside make's own, and nothing is written.
refuses() {
    local pattern=$1
    shift
    run --separate-stderr install_tamis "$@"
    [ "$status" -ne 0 ]
    [ "$(grep -vc '^make' <<<"$stderr")" -eq 1 ] && [[ $stderr =~ $pattern ]] || fail "$stderr"
}

@test "an impossible request is one line, before anything is written" {
    refuses "absolute paths, not 'rel'" PREFIX=rel
    refuses "can't be listed: take another" PREFIX="$PWD/a|b"
    refuses "can't be listed: take another" PREFIX="$PWD/a\\tb"
    touch file
    refuses "file: in the way, it is no directory" PREFIX="$PWD/file"
    mkdir -p p/share/man/man5/tamis.5
    refuses "tamis.5: in the way, it is a directory" PREFIX="$PWD/p"
    [ -z "$(find p ! -type d)" ]
    run --separate-stderr uninstall_tamis PREFIX="$PWD/p"
    [ "$status" -ne 0 ]
    [[ $stderr == *"nothing was installed with this PREFIX"* ]]
}

@test "a prefix that may not be written to is one line" {
    mkdir -m 555 "$BATS_FILE_TMPDIR/closed"
    as=()
    [ "$(id -u)" != 0 ] || as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    p=/usr/local
    [ "$(id -u)" = 0 ] || p=$BATS_FILE_TMPDIR/closed
    cd /
    run "${as[@]}" env VERSION=1 SONAME=x DESTDIR= PREFIX=$p BINDIR=$p/bin LIBDIR=$p/lib \
        INCLUDEDIR=$p/include MANDIR=$p/man DOCDIR=$p/doc PKGCONFIGDIR=$p/pc BASHDIR=$p/b ZSHDIR=$p/z \
        sh -s install build <"$top/tools/package/install.sh"
    [ "$status" -eq 4 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ ${lines[0]} == *"may not be written to; use 'sudo make install'"* ]]
}

@test "uninstall leaves nothing" {
    uninstall_tamis PREFIX="$prefix"
    [ ! -e "$prefix" ]
}
