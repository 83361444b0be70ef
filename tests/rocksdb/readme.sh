#!/bin/sh
# Compiles the lines of C++ of tools/rocksdb/README.md.
set -eu
cd "$(dirname "$0")/../.."
readme=tools/rocksdb/README.md
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
sed -n '/^```c++$/,/^```$/{/^```/d;p;}' $readme >"$dir/lines"
[ -s "$dir/lines" ] || { echo "check-rocksdb: $readme has no C++" >&2; exit 1; }
{
    grep '^#include' "$dir/lines"
    echo 'static void app(rocksdb::Options options, rocksdb::ReadOptions read_options,'
    echo '                rocksdb::DB *db, rocksdb::Slice key) {'
    grep -v '^#include' "$dir/lines"
    echo '} int main() { app({}, {}, nullptr, {}); }'
} >"$dir/app.cc"
${CXX:-g++} -std=c++17 -Wall -Wextra -Werror -Ilib -Itools/rocksdb -fsyntax-only "$dir/app.cc"
