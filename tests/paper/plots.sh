#!/bin/sh
# Draws the tables that `paper` left in a directory as the figures of the paper:
# plots.sh DIR. In all of them the paper's curves are full lines, those of our own layout
# dashed; s = 2 is blue, s = 4 orange.
set -eu
cd "$1"

# plot NAME TITLE X Y COMMANDS: NAME.svg
plot() {
    gnuplot <<END
set terminal svg size 800,520 dynamic background rgb "white" font "sans-serif,14"
set output "$1.svg"
set datafile separator comma
set datafile missing NaN
set title "$2"
set xlabel "$3"
set ylabel "$4"
set border 3 lc rgb "#444444"
set tics nomirror out
set grid lc rgb "#dddddd" lw 1
set key top left Left reverse samplen 3 spacing 1.15
of(name) = strcol(1) eq name ? column(2) : NaN
s2 = "#0060ad"; s4 = "#d95f02"; grey = "#666666"; green = "#1b9e77"
growth = 'set logscale x; set xrange [1:2e6]; set format x "10^{%L}"'
$5
END
    echo "$1.svg"
}

plot figure1 'Figure 1: space against set size  (r = 0.5, P = 10^{-6}, m_0 = 128)' \
    'keys' 'bits' '
set format x "%.0f"
set format y "%.1s %c"
set xrange [0:25000]
set yrange [0:4e6]
set label 1 "22,624 keys, 882,304 bits" at 22624,882304 point pt 7 ps 0.7 lc rgb s2 right offset -1,-0.9
plot "figure1.csv" using (of("s1")):3 with lines lw 2 lc rgb green title "s = 1", \
  "" using (of("lanes")):3 with lines lw 1.5 dt 2 lc rgb s2 title "s = 2, lanes in whole pages", \
  "" using (of("s2")):3 with lines lw 2 lc rgb s2 title "s = 2", \
  "" using (of("static")):3 with lines lw 2 lc rgb grey title "static"'

plot figure2 'Figure 2: relative space of full stages  (r = 0.5, P = 10^{-6})' \
    'growth' 'bits / bits of a static filter' '
@growth
set yrange [1:2.4]
set style data linespoints
plot "figure2.csv" using (of("s2")):3 lw 2 pt 7 ps 0.5 lc rgb s2 title "s = 2", \
  "" using (of("s4")):3 lw 2 pt 7 ps 0.5 lc rgb s4 title "s = 4", \
  "" using (of("lanes_s2")):3 lw 1.5 dt 2 pt 6 ps 0.4 lc rgb s2 title "s = 2, lanes", \
  "" using (of("lanes_s4")):3 lw 1.5 dt 2 pt 6 ps 0.4 lc rgb s4 title "s = 4, lanes", \
  "" using (of("lanes_s2_r85")):3 lw 1.5 dt 3 pt 2 ps 0.5 lc rgb s2 title "s = 2, lanes, r = 0.85", \
  "" using (of("lanes_s4_r85")):3 lw 1.5 dt 3 pt 2 ps 0.5 lc rgb s4 title "s = 4, lanes, r = 0.85"'

plot figure3 'Figure 3: stages against s' 's' 'stages' '
set logscale x 2
set xrange [1.25:16.2]
set xtics (1.25, 1.5, 2, 3, 4, 6, 8, 12, 16)
set yrange [0:60]
set key top right
set style data steps
plot "figure3.csv" using 1:4 every ::1 lw 2 lc rgb s2 title "growth 10^6", \
  "" using 1:3 every ::1 lw 2 lc rgb s4 title "growth 10^4", \
  "" using 1:2 every ::1 lw 2 lc rgb green title "growth 10^2"'

plot figure4 'Figure 4: mean relative space against s, at the best r  (P = 10^{-6})' \
    's' 'bits / bits of a static filter, mean over sizes' '
set xrange [1:8]
set yrange [1:5]
plot "figure4.csv" using (of("ideal_1e6")):3 with lines lw 2 lc rgb s2 title "growth up to 10^6", \
  "" using (of("ideal_1e4")):3 with lines lw 2 lc rgb s4 title "growth up to 10^4", \
  "" using (of("ideal_1e2")):3 with lines lw 2 lc rgb green title "growth up to 10^2", \
  "" using (of("slices_1e6")):3 with lines lw 1 lc rgb grey title "up to 10^6, whole slices", \
  "" using (of("lanes_1e6")):3 with points pt 6 ps 0.7 lw 1.5 lc rgb s2 title "up to 10^6, lanes", \
  "" using (of("lanes_1e4")):3 with points pt 6 ps 0.7 lw 1.5 lc rgb s4 title "up to 10^4, lanes", \
  "" using (of("lanes_1e2")):3 with points pt 6 ps 0.7 lw 1.5 lc rgb green title "up to 10^2, lanes"'

plot figure5 'Figure 5: relative space of full stages, for r  (s = 2, P = 10^{-6})' \
    'growth' 'bits / bits of a static filter' '
@growth
set yrange [1:2.2]
set style data lines
plot "figure5.csv" using (of("r0.5")):3 lw 2 lc rgb "#e41a1c" title "r = 0.5", \
  "" using (of("r0.6")):3 lw 2 lc rgb "#d95f02" title "r = 0.6", \
  "" using (of("r0.7")):3 lw 2 lc rgb "#b8860b" title "r = 0.7", \
  "" using (of("r0.8")):3 lw 2 lc rgb "#1b9e77" title "r = 0.8", \
  "" using (of("r0.85")):3 with lines lw 2 lc rgb grey title "r = 0.85, our default", \
  "" using (of("lanes_r0.85")):3 with linespoints lw 1.5 dt 2 pt 6 ps 0.5 lc rgb grey title "r = 0.85, lanes", \
  "" using (of("r0.9")):3 lw 2 lc rgb "#0060ad" title "r = 0.9", \
  "" using (of("r0.95")):3 lw 2 lc rgb "#7570b3" title "r = 0.95"'

plot figure6 'Figure 6: the r of the least mean space  (P = 10^{-6})' 'growth' 'r' '
set logscale x
set xrange [10:1.1e6]
set format x "10^{%L}"
set yrange [0.4:1]
set key bottom right
plot "figure6.csv" using (of("s2")):3 with lines lw 2 lc rgb s2 title "s = 2", \
  "" using (of("s4")):3 with lines lw 2 lc rgb s4 title "s = 4", \
  "" using (of("lanes_s2")):3 with linespoints lw 1.5 dt 2 pt 6 ps 0.5 lc rgb s2 title "s = 2, lanes", \
  "" using (of("lanes_s4")):3 with linespoints lw 1.5 dt 2 pt 6 ps 0.5 lc rgb s4 title "s = 4, lanes", \
  0.85 with lines lw 1 dt 3 lc rgb grey title "our default"'

plot sizes 'Allocated bits a key  (P = 1%, lanes)' 'keys' 'bits / keys' '
set logscale x
set xrange [1e4:1e9]
set format x "10^{%L}"
set yrange [0:80]
set key top right
set style data lines
plot "sizes.csv" using (of("paper")):3 lw 1.5 dt 2 lc rgb s4 title "n_0 = 65,536, s = 2, r = 0.5 as in the paper", \
  "" using (of("before")):3 lw 2 lc rgb grey title "n_0 = 65,536, s = 2, r = 0.85", \
  "" using (of("default")):3 lw 2 lc rgb s2 title "n_0 = 50,000, s = 1.9, r = 0.85, our default", \
  "" using (of("static")):3 lw 1.5 lc rgb green title "built from all keys"'

plot measured 'Measured: growing filters whose stages are just full' 'stages' 'error' '
set logscale y
set yrange [1e-4:1e-1]
set format y "10^{%L}"
set xrange [0.5:10.5]
set xtics 1
set key bottom right
is(p) = column(1) == p ? column(4) : NaN
plot 0.05 with lines lw 1 dt 3 lc rgb s4 title "P = 5%", \
  "measured.csv" using (is(0.05)):10 with lines lw 2 lc rgb s4 title "sum of the stages, s = 1.5, r = 0.5", \
  "" using (is(0.05)):6:7:8 with yerrorbars lw 1.5 pt 7 ps 0.4 lc rgb s4 title "measured, 99% intervals", \
  0.01 with lines lw 1 dt 3 lc rgb s2 title "P = 1%", \
  "" using (is(0.01)):10 with lines lw 2 lc rgb s2 title "sum of the stages, s = 2, r = 0.85", \
  "" using (is(0.01)):6:7:8 with yerrorbars lw 1.5 pt 7 ps 0.4 lc rgb s2 title "measured, 99% intervals"'

# kinds X Y: the five curves, of kinds.csv.
kinds() {
    printf '"kinds.csv" using (of("classic", %s)):%s lw 2 lc rgb grey title "classic Bloom", ' "$1" "$2"
    printf '"" using (of("blocked", %s)):%s lw 2 lc rgb s4 title "bits in one cache line", ' "$1" "$2"
    printf '"" using (of("lanes", %s)):%s lw 2 dt 2 lc rgb s2 title "our lanes", ' "$1" "$2"
    printf '"" using (of("ribbon", %s)):%s lw 2 dt 2 lc rgb green title "our ribbons", ' "$1" "$2"
    printf '"" using (of("list", %s)):%s lw 2 dt 2 lc rgb "#7570b3" title "our lists, cut"' "$1" "$2"
}
plot kinds_bits 'Bits a key against the measured error  (2^{19} keys)' 'error' 'bits' '
of(name, i) = strcol(1) eq name ? column(i) : NaN
set logscale x
set xrange [0.2:4e-5]
set format x "10^{%L}"
set yrange [0:24]
set style data linespoints
plot '"$(kinds 3 4)"', -log(x) / log(2) with lines lw 1.5 dt 3 lc rgb "black" title "log_2(1/error), the least"'

plot kinds_build 'Time to build against bits  (2^{19} keys, one thread)' 'bits a key' 'ns a key' '
of(name, i) = strcol(1) eq name ? column(i) : NaN
set logscale y
set yrange [1:1000]
set style data linespoints
plot '"$(kinds 4 6)"

plot kinds_probe 'Time to ask for an absent key against bits  (2^{19} keys, one at a time)' 'bits a key' 'ns' '
of(name, i) = strcol(1) eq name ? column(i) : NaN
set logscale y
set yrange [1:2000]
set key top right
set style data linespoints
plot '"$(kinds 4 7)"
