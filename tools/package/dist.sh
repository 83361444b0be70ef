#!/bin/sh
# The tarball of this source: dist.sh TARBALL VERSION. It has the files that git knows, as in
# the work tree; without git, in an unpacked tarball, all files that were not built. The bytes
# depend on the files and their date alone: names are sorted, owners and modes are fixed.
set -eu
out=$1 name=tamis-$2
cd "$(dirname "$0")/../.."
list=$(mktemp)
trap 'rm -f "$list"' EXIT
if [ -e .git ]; then
    git ls-files -z >"$list"
    [ -z "$(git status --porcelain)" ] ||
        echo "make dist: uncommitted: changed files go in as they are, new files do not" >&2
else
    find . -path ./build -prune -o -name compile_commands.json -prune -o \( -type f -o -type l \) -print0 |
        sed -z 's,^\./,,' >"$list"
fi
[ -s "$list" ] || { echo "make dist: no list of files: does 'git status' work here?" >&2; exit 2; }
mkdir -p "$(dirname "$out")"
LC_ALL=C sort -z -o "$list" "$list"
tar --create --file="$out.tar" --format=ustar --no-recursion --null --verbatim-files-from \
    --transform="flags=r;s,^,$name/," --mtime="@$(tools/package/date.sh)" --mode='u+rwX,go+rX,go-w' \
    --owner=0 --group=0 --numeric-owner --files-from="$list"
gzip -9n <"$out.tar" >"$out.tmp"
rm "$out.tar"
mv "$out.tmp" "$out"
echo "$out: $(sha256sum <"$out" | cut -c1-64)"
