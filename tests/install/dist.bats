#!/usr/bin/env bats
# The tarball: it has the same bytes for every maker, and builds from itself. The Debian packages
# are built of it, and they run.
load common

setup() {
    cd "$BATS_FILE_TMPDIR" || return 1
}

# Another copy of this source: of what is committed, or where there is no git of what is
# in the tarball.
copy() {
    if [ -e "$top/.git" ]; then
        git clone -q "$top" "$1"
    else
        make -s -C "$top" B="$PWD/of" dist
        mkdir "$1"
        tar -xzf of/*.tar.gz -C "$1" --strip-components=1
    fi
}

tarball() {
    echo "$1/build/tamis-$(version).tar.gz"
}

@test "two copies of the source make the same tarball" {
    umask 022
    copy one
    make -s -C one dist
    umask 077
    copy 'the other'
    touch 'the other/SPEC.md' 'the other/stray'
    (cd 'the other' && TZ=Asia/Tokyo LC_ALL=C.UTF-8 make -s dist)
    cmp "$(tarball one)" "$(tarball 'the other')"
    ! tar -tzf "$(tarball one)" | grep -vE "^tamis-$(version)/" || fail "outside of its directory"
    ! tar -tvzf "$(tarball one)" | grep -vE '^(-rwxr-xr-x|-rw-r--r--|lrwxrwxrwx) 0/0 ' || fail "owners or modes"
}

@test "it makes the same tarball of itself, without git, and builds" {
    tar -xzf "$(tarball one)"
    cd "tamis-$(version)"
    [ ! -e .git ]
    GIT_DIR=/nonexistent make -s -j2 OPT=-O0 all man dist
    [ "$(build/tamis --version)" = "tamis $(version)" ]
    cmp "$(tarball .)" "$(tarball ../one)"
}

@test "packages are built of it, with what they depend on" {
    DEB_BUILD_OPTIONS=noopt make -s -C one deb
    cd one/build/deb
    [ "$(printf '%s\n' *.deb | sed 's/_.*//' | tr '\n' ' ')" = "libtamis-dev libtamis0 tamis " ]
    depends() { dpkg-deb -f "$1"_*.deb Depends; }
    for needed in libc6 liblmdb0 libxxhash0; do
        depends libtamis0 | grep -q "$needed (>="
        depends tamis | grep -q "$needed (>="
    done
    depends tamis | grep -q 'libjansson4 (>='
    depends libtamis-dev | grep -qF "libtamis0 (= $(version)-1)"
    for deb in *.deb; do dpkg-deb -c "$deb"; done >list
    ! grep -E ' \./(usr/local|opt|home|tmp)|manifest' list || fail "in a wrong place"
    grep -q ' ./usr/bin/tamis$' list
    grep -q ' ./usr/share/man/man1/tamis.1.gz$' list
}

@test "unpacked, they run, and a program is compiled with them" {
    for deb in one/build/deb/*.deb; do dpkg-deb -x "$deb" root; done
    root/usr/bin/tamis init store
    printf 'apple\n' | root/usr/bin/tamis build store fruit
    [ "$(root/usr/bin/tamis probe store apple)" = "$(printf 'apple\tfruit\tHIT')" ]
    lib=$(dirname "$PWD"/root/usr/lib/*/libtamis.a)
    # As in a system root: the prefix of tamis.pc is /usr.
    flags=$(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config --define-variable=prefix="$PWD/root/usr" \
        --define-variable=libdir="$lib" --define-variable=includedir="$PWD/root/usr/include" --cflags --libs tamis)
    eval "$CC -std=c11 -o use '$top/tests/install/use.c' $flags"
    [ "$(LD_LIBRARY_PATH=$lib ./use made)" = "$(version) right" ]
}
