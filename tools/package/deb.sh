#!/bin/sh
# Debian packages of a tarball: deb.sh TARBALL VERSION DIRECTORY. The debian/ directory is
# made there from tools/package/debian; NAME <MAIL> of the maintainer may be given in
# DEBFULLNAME and DEBEMAIL.
set -eu
tarball=$(realpath "$1") version=$2 dir=$3 source=$3/tamis-$2
templates=$(realpath "$(dirname "$0")")/debian
maintainer="${DEBFULLNAME:-tamis authors} <${DEBEMAIL:-tamis@example.org}>"
rm -rf "$dir"
mkdir -p "$dir"
tar -x -z -f "$tarball" -C "$dir"
cp -r "$templates" "$source/debian"
cd "$source"
date=$(LC_ALL=C date -u -R -d "@$(stat -c %Y lib/tamis.h)")
license=$(sed -n '5,$s/^$/./; 5,$s/^/ /p' LICENSE)
for file in debian/control debian/changelog; do
    sed -i "s/@VERSION@/$version/; s/@MAINTAINER@/$maintainer/; s/@DATE@/$date/" "$file"
done
sed -i -e "/@LICENSE@/{r /dev/stdin" -e 'd}' debian/copyright <<EOF
$license
EOF
# Nothing of the make that called this: the package has its own flags.
if ! env -i PATH="$PATH" HOME="${HOME:-/}" LC_ALL=C.UTF-8 DEB_BUILD_OPTIONS="noautodbgsym parallel=$(nproc) ${DEB_BUILD_OPTIONS:-}" \
    dpkg-buildpackage --build=binary --no-sign >../build.log 2>&1; then
    tail -n 30 ../build.log >&2
    exit 2
fi
cd ..
rm -rf "tamis-$version"
echo "$dir:" *.deb
