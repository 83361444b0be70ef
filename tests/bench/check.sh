#!/bin/sh
# The smallest form of the benchmark: does it run, is every figure there, does it tell a
# wrong answer? It looks at no time. check.sh PROGRAM DIR.
set -u
program=$1 dir=$2
rm -rf "$dir" && mkdir -p "$dir" || exit 2
passed=0 failed=0

# ok NAME COMMAND...: one check.
ok() {
    name=$1
    shift
    if "$@" >"$dir/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
        cat "$dir/log"
    fi
}

json() {
    jq -e "$1" "$dir/bench.json"
}

ok "it runs" "$program" --tiny --seed 3 --out "$dir"
ok "nothing is wrong" json '.wrong == []'
for key in form seed machine load busy sizes figures limits wrong; do
    ok "the report has $key" json "has(\"$key\")"
done
# An id in the table of marks.c is a figure in the report, with a value or, where the
# machine cannot do it, with the reason in `detail`.
ids=$(sed -n 's/^    [A-Z]*("\([a-z0-9_]*\)".*/\1/p' tests/bench/marks.c)
for id in $ids; do
    ok "figure $id" json ".figures.$id | (.value | type) == \"number\" or (.detail | test(\"has no|could not\"))"
    ok "figure $id is judged" json ".figures.$id | (.met | type) == \"boolean\" or .bound == \"recorded\" or .value == null"
done
ok "as many figures as the table has" json "(.figures | length) == $(echo "$ids" | wc -l)"
ok "most figures have values" json '([.figures[] | select(.value == null)] | length) <= 8'
near='def near($a; $b): (($a - $b) | fabs) <= 1e-9 * ($b | fabs);'
ok "ratios are what they say" json "$near [.figures[] | select(.other != null and .value != null and (.pairs | not))
    | near(.value; if .bound == \"at least\" then .other / .ours else .ours / .other end)] | all and length > 20"
ok "marks are compared as they say" json '[.figures[] | select(.met != null)
    | .met == (if .bound == "at least" then .value >= .mark else .value <= .mark end)] | all'
ok "the machine is told" json '.machine | has("processor") and has("kernel") and has("tamis_kernel")
    and has("file_system") and has("page_bytes") and .cores >= 1'
ok "the machine's limits are there" json '.limits | has("lines_1pct") and has("loads_1pct") and has("memcpy")
    and has("memory_read") and has("read_file") and has("fdatasync") and has("xxh3_pages")
    and has("noise") and has("stages_lines")'
ok "flushes are counted" json '.figures.commit_flushes.value >= 1'
ok "marks of positives follow the lanes" json '.figures.large_positives_1pct.mark == 1.3'
ok "the table has every figure" [ "$(grep -c '^| .* | .* | .* | .* | .* | .* | ' "$dir/bench.md")" -ge "$(echo "$ids" | wc -l)" ]
ok "the plots are drawn" tests/bench/plots.sh "$dir"
for plot in speed error stages segments build first; do
    ok "$plot.svg has a curve" grep -q 'gnuplot_plot_1' "$dir/$plot.svg"
done
ok "no filter is left behind" [ -z "$(find "$dir" -name '*.tamis')" ]
# planted WHAT WORDS: the run fails, and says so.
planted() {
    "$program" --tiny --seed 3 --out "$dir" --only small --plant "$1" >"$dir/planted"
    [ $? -eq 1 ] && grep "$2" "$dir/planted" && json '.wrong | length > 0'
}
ok "a lost key fails it" planted loss 'WRONG: .* ABSENT'
ok "too many errors fail it" planted error 'WRONG: .* error'
ok "an unknown option is refused" sh -c "\"$program\" --nonsense; [ \$? -eq 2 ]"
# The rules keep what is there until there is something else.
B=$(dirname "$(dirname "$(dirname "$program")")")
refused() {
    mkdir -p "$B/bench" && touch "$B/bench/kept"
    ! make -s bench-quick B="$B" "$@" && [ -e "$B/bench/kept" ] && [ ! -e "$B/bench.new" ]
    code=$?
    rm -f "$B/bench/kept"
    return $code
}
for option in "--seed x" "--keys -5" "--keys 999" "--keys 5K" "--seed 99999999999999999999"; do
    ok "$option is refused" sh -c "\"$program\" --tiny $option --only small --out \"$dir\"; [ \$? -eq 2 ]"
done
ok "an unknown part keeps the last results" refused PART=nonsense
ok "so does a seed that is none" refused SEED=x
# A column of nothing: a processor without AVX-512.
sed '1!s/ [^ ]*$/ ?/' "$dir/speed.dat" >"$dir/without" && mv "$dir/without" "$dir/speed.dat"
plots_are_silent() {
    tests/bench/plots.sh "$dir" 2>&1 | tee "$dir/plots" && ! grep -i warning "$dir/plots"
}
ok "a figure that there is not is not drawn" plots_are_silent
ok "and the others are" grep -q 'gnuplot_plot_7' "$dir/speed.svg"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
