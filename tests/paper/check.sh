#!/bin/sh
# Checks what the paper states by the program itself, and that all tables and figures are
# made: check.sh PROGRAM DIR.
set -u
program=$1 dir=$2
. tests/ok.sh

"$program" check >"$dir/statements"
code=$?
sed '$d' "$dir/statements"
counts=$(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$dir/statements")
ok "the statements are judged" [ "${counts% *}" -ge 50 ]
ok "the exit code says so" [ "$code" -eq $((${counts#* } > 0)) ]
passed=$((passed + ${counts% *})) failed=$((failed + ${counts#* }))

ok "the tables are made" tests/paper/paper.sh "$program" "$dir"
ok "no complaint of gnuplot's" [ -z "$(tests/paper/plots.sh "$dir" 2>&1 >/dev/null)" ]
# drawn FIGURE CURVES: so many curves, each with a line or a point.
drawn() {
    ok "$1 has $2 curves" [ "$(grep -c 'id="gnuplot_plot_' "$dir/$1.svg")" -eq "$2" ]
    ok "$1 is a document" grep -q '</svg>' "$dir/$1.svg"
}
drawn figure1 4
drawn figure2 6
drawn figure3 3
drawn figure4 7
drawn figure5 8
drawn figure6 5
drawn measured 6
drawn sizes 4
drawn kinds_bits 6
drawn kinds_build 5
drawn kinds_probe 5
ok "each kind has seven errors" [ "$(sed 1d "$dir/kinds.csv" | cut -d, -f1 | sort | uniq -c | grep -c " 7 ")" -eq 5 ]
ok "table 1 is whole" grep -qx '0.0001,14,18724,13674,13662' "$dir/table1.csv"
ok "figure 1 has its step" grep -q '^s2,22624.*,882304$' "$dir/figure1.csv"
ok "no number is missing" sh -c "! grep -iE 'nan|inf' $dir/*.csv"
ok "a word it does not know is refused" sh -c "\"$program\" nonsense; [ \$? -eq 2 ]"
ok "a directory that is not there too" sh -c "\"$program\" figures \"$dir/none\"; [ \$? -eq 3 ]"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
