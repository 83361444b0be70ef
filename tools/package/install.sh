#!/bin/sh
# Installs the products of `make`, or removes them: install.sh install|uninstall BUILD. make
# calls it with the directories in the environment. The manifest, in DOCDIR, lists the files
# that were written and the directories that were made. uninstall removes these, whatever
# version wrote them, and nothing else.
set -eu
umask 022
build=$2
manifest=$DOCDIR/manifest

die() {
    echo "tamis: $1" >&2
    exit "${2:-2}"
}

# The files to install: mode, source and destination, with a tab between. Instead of a mode
# link: a symbolic link to the source; fill: the source is a template.
tab='	'
list() {
    {
        echo "755|$build/tamis|$BINDIR/tamis"
        echo "644|$build/libtamis.so.$VERSION|$LIBDIR/libtamis.so.$VERSION"
        echo "link|libtamis.so.$VERSION|$LIBDIR/$SONAME"
        echo "link|$SONAME|$LIBDIR/libtamis.so"
        echo "644|$build/libtamis.a|$LIBDIR/libtamis.a"
        echo "644|$build/libtamis-filter.a|$LIBDIR/libtamis-filter.a"
        echo "644|lib/tamis.h|$INCLUDEDIR/tamis.h"
        echo "644|lib/tamis_inline.h|$INCLUDEDIR/tamis_inline.h"
        for part in lib/tamis/*.h; do
            echo "644|$part|$INCLUDEDIR/${part#lib/}"
        done
        echo "fill|tools/package/tamis.pc.in|$PKGCONFIGDIR/tamis.pc"
        echo "fill|tools/package/tamis-filter.pc.in|$PKGCONFIGDIR/tamis-filter.pc"
        for page in tools/man/*.scd; do
            page=$(basename "$page" .scd)
            echo "644|$build/man/$page|$MANDIR/man${page##*.}/$page"
        done
        echo "644|tools/completion/tamis.bash|$BASHDIR/tamis"
        echo "644|tools/completion/_tamis|$ZSHDIR/_tamis"
        for text in README.md SPEC.md LICENSE; do
            echo "644|$text|$DOCDIR/$text"
        done
    } | tr '|' "$tab"
}

# Each directory that must be there, from the top down.
directories() {
    list | cut -f3 | while IFS= read -r path; do
        while path=${path%/*} && [ -n "$path" ]; do
            printf '%s\n' "$path"
        done
    done | LC_ALL=C sort -u
}

# Nothing is begun that can be seen to fail.
check() {
    for path in "$PREFIX" "$BINDIR" "$LIBDIR" "$INCLUDEDIR" "$MANDIR" "$DOCDIR" \
        "$PKGCONFIGDIR" "$BASHDIR" "$ZSHDIR"; do
        case $path in
        *"$tab"* | *\\* | *'|'* | *'
'*) die "a directory with a tab, newline, backslash or '|' in its name can't be listed: take another" ;;
        /*) ;;
        *) die "PREFIX and the like are absolute paths, not '$path'; to install into a directory for later use DESTDIR" ;;
        esac
    done
    directories | while IFS= read -r path; do
        if [ -e "$DESTDIR$path" ]; then
            [ -d "$DESTDIR$path" ] || die "$DESTDIR$path: in the way, it is no directory" 4
        fi
    done
    list | cut -f3 | while IFS= read -r path; do
        [ ! -d "$DESTDIR$path" ] || die "$DESTDIR$path: in the way, it is a directory" 4
        path=$DESTDIR${path%/*}
        while [ ! -e "$path" ]; do
            case $path in */*) path=${path%/*} ;; *) path=. ;; esac
            [ -n "$path" ] || path=/
        done
        [ -w "$path" ] || die "$path: may not be written to; use 'sudo make install', or a place of your own: make install PREFIX=\$HOME/.local" 4
    done
}

# One line a thing: f a file or link, d a directory that was not there before.
note() {
    [ ! -f "$1" ] || grep '^d ' "$1" || :
    directories | while IFS= read -r path; do
        [ -d "$DESTDIR$path" ] || printf 'd %s\n' "$path"
    done
    list | cut -f3 | sed 's/^/f /'
    printf 'f %s\n' "$manifest"
}

# $1, below $PREFIX if it is, as pkg-config has it.
relative() {
    case $1 in "$PREFIX"/*) printf '${prefix}%s\n' "${1#"$PREFIX"}" ;; *) printf '%s\n' "$1" ;; esac
}

fill() {
    awk -v PREFIX="$PREFIX" -v INCLUDEDIR="$(relative "$INCLUDEDIR")" \
        -v LIBDIR="$(relative "$LIBDIR")" -v VERSION="$VERSION" '
        function put(name, value, at) {
            if (at = index($0, "@" name "@"))
                $0 = substr($0, 1, at - 1) value substr($0, at + length(name) + 2)
        }
        { put("PREFIX", PREFIX); put("INCLUDEDIR", INCLUDEDIR); put("LIBDIR", LIBDIR); put("VERSION", VERSION); print }' "$1"
}

# The loader's list of libraries, where it is this system's own.
PATH=$PATH:/usr/sbin:/sbin
tell_loader() {
    [ -n "$DESTDIR" ] || [ "$(id -u)" != 0 ] || ! command -v ldconfig >/dev/null || ldconfig
}

# Where the loader or pkg-config do not look by themselves.
hint() {
    [ -z "$DESTDIR" ] || return 0
    ldconfig -p 2>/dev/null | grep -qF " => $LIBDIR/$SONAME" ||
        echo "programs that use it: PKG_CONFIG_PATH='$PKGCONFIGDIR' to build them, LD_LIBRARY_PATH='$LIBDIR' to run them"
}

put() {
    check
    old=$(note "$DESTDIR$manifest")
    # Files of another version that this one does not have.
    [ ! -f "$DESTDIR$manifest" ] || sed -n 's/^f //p' "$DESTDIR$manifest" | while IFS= read -r path; do
        printf '%s\n' "$old" | grep -qxF "f $path" || rm -f "$DESTDIR$path"
    done
    directories | while IFS= read -r path; do
        [ -d "$DESTDIR$path" ] || install -d -m 755 "$DESTDIR$path"
    done
    printf '%s\n' "$old" | install -m 644 /dev/stdin "$DESTDIR$manifest"
    list | while IFS=$tab read -r mode from to; do
        case $mode in
        link) ln -sfn "$from" "$DESTDIR$to" ;;
        fill) fill "$from" | install -m 644 /dev/stdin "$DESTDIR$to" ;;
        *) install -m "$mode" "$from" "$DESTDIR$to" ;;
        esac
    done
    tell_loader
    echo "tamis $VERSION is installed: $DESTDIR$BINDIR/tamis, $DESTDIR$LIBDIR/libtamis.so; 'make uninstall' with the same PREFIX removes it"
    hint
}

take_away() {
    case $DOCDIR in /*) ;; *) die "PREFIX is an absolute path, not '$PREFIX'" ;; esac
    [ -f "$DESTDIR$manifest" ] ||
        die "$DESTDIR$manifest: not there, so nothing was installed with this PREFIX and DESTDIR; use those of 'make install'" 5
    [ -w "$DESTDIR$DOCDIR" ] || die "$DESTDIR$DOCDIR: may not be written to; use 'sudo make uninstall'" 4
    all=$(cat "$DESTDIR$manifest")
    printf '%s\n' "$all" | sed -n 's/^f //p' | while IFS= read -r path; do
        rm -f "$DESTDIR$path"
    done
    printf '%s\n' "$all" | sed -n 's/^d //p' | LC_ALL=C sort -ru | while IFS= read -r path; do
        [ ! -d "$DESTDIR$path" ] || rmdir --ignore-fail-on-non-empty "$DESTDIR$path"
    done
    tell_loader
    echo "tamis is gone from $DESTDIR$PREFIX"
}

case $1 in
install) put ;;
uninstall) take_away ;;
esac
