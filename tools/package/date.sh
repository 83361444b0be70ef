#!/bin/sh
# The date of this source, in seconds since 1970, for man pages and tarballs: the same source
# gives the same bytes. It is the commit's date, or in an unpacked tarball that of its files.
set -eu
cd "$(dirname "$0")/../.."
[ -z "${SOURCE_DATE_EPOCH:-}" ] || { echo "$SOURCE_DATE_EPOCH"; exit 0; }
[ -e .git ] && git log -1 --format=%ct 2>/dev/null || stat -c %Y lib/tamis.h
