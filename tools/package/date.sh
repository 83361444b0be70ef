#!/bin/sh
# When this source was made, in seconds since 1970: the date that man pages and tarballs
# have, so that the same source gives the same bytes. The commit's, or, of an unpacked
# tarball, that of its files.
set -eu
cd "$(dirname "$0")/../.."
[ -z "${SOURCE_DATE_EPOCH:-}" ] || { echo "$SOURCE_DATE_EPOCH"; exit 0; }
[ -e .git ] && git log -1 --format=%ct 2>/dev/null || stat -c %Y lib/tamis.h
