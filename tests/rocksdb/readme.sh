#!/bin/sh
# README.md's lines of C++, taken from the README itself, compiled.
set -eu
cd "$(dirname "$0")/../.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
sed -n '/^```c++$/,/^```$/{/^```/d;p;}' README.md >"$dir/lines"
[ -s "$dir/lines" ] || { echo "check-rocksdb: README.md has no C++" >&2; exit 1; }
{
    grep '^#include' "$dir/lines"
    echo 'static void app(rocksdb::Options options, rocksdb::ReadOptions read_options,'
    echo '                rocksdb::DB *db, rocksdb::Slice key) {'
    grep -v '^#include' "$dir/lines"
    echo '} int main() { app({}, {}, nullptr, {}); }'
} >"$dir/app.cc"
${CXX:-g++} -std=c++17 -Wall -Wextra -Werror -Ilib -Itools/rocksdb -fsyntax-only "$dir/app.cc"
