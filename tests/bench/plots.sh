#!/bin/sh
# Draws the tables that the benchmark left in a directory: plots.sh DIR.
set -eu
cd "$1"

# plot NAME TITLE X Y COMMANDS: NAME.svg
plot() {
    gnuplot <<END
set terminal svg size 800,500 dynamic background rgb "white"
set output "$1.svg"
set title "$2"
set xlabel "$3"
set ylabel "$4"
set datafile missing "?"
set key outside right
set grid
set style data linespoints
set format x "%.0s%c"
$5
END
    echo "$1.svg"
}

# has FILE COLUMN: is there any number in it?
has() {
    awk -v column="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == column) at = i; next }
        at && $at != "?" { found = 1 } END { exit !found }' "$1"
}

avx512=
! has speed.dat avx512 || avx512=', "" using "bytes":"avx512" title "AVX-512 loop"'
plot speed "Negatives at 1%, from the cache to memory" "bytes of the filter" "ns a key" '
set logscale xy
plot "speed.dat" using "bytes":"batch" title "batch", "" using "bytes":"single" title "one at a time", \
  "" using "bytes":"scalar" title "scalar loop", \
  "" using "bytes":"lines" title "random lines", "" using "bytes":"loads" title "independent loads", \
  "" using "bytes":"libbloom" title "libbloom", "" using "bytes":"leveldb" title "LevelDB"'"$avx512"
plot error "Error against size" "bits a key" "measured error" '
set logscale y
set format y "%g"
plot "error.dat" using "bits":"error" title "tamis", "" using "classic_bits":"target" title "classic, ideal k" with lines, \
  "error-libbloom.dat" using "bits":"error" title "libbloom", "error-leveldb.dat" using "bits":"error" title "LevelDB", \
  "error.dat" using "bound_bits":"target" title "log2(1/e)" with lines'
plot stages "A negative in a growing filter" "stages" "ns a key" '
set yrange [0:*]
plot "stages.dat" using "stages":"batch_ns" title "batch", "" using "stages":"single_ns" title "one at a time", \
  "" using "stages":"lines_ns" title "a random line in each"'
plot segments "One key against all segments" "segments" "ns a segment" '
set logscale xy
plot "segments.dat" using "segments":"all_ns" title "bitmap", "" using "segments":"candidates_ns" title "candidates", \
  "" using "segments":"many_keys_ns" title "many keys", "" using "segments":"lines_ns" title "random lines"'
plot build "Building from hashes" "keys" "million keys a second" '
set logscale xy
plot "build.dat" using "keys":"two_threads" title "two threads", "" using "keys":"one_thread" title "one thread", \
  "" using "keys":"libbloom" title "libbloom", "" using "keys":"leveldb" title "LevelDB", \
  "" using "keys":"copy" title "memcpy and pwrite"'
plot first "First answer, page cache warm" "bytes of the file" "us" '
set logscale xy
plot "first.dat" using "file_bytes":(column("first_ns")/1e3) title "open and ask", \
  "" using "file_bytes":(column("read_ns")/1e3) title "read the file"'
