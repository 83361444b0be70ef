# Is this the text exposition format, version 0.0.4, as a strict reader takes it? Says
# what is wrong with the first line that is not, and exits 1. Each metric has a line of
# help, then one of its type, then its samples, all together and each once.
function bad(why) {
    print "line " NR ": " why ": " $0
    failed = 1
    exit 1
}
BEGIN {
    name = "[a-zA-Z_:][a-zA-Z0-9_:]*"
    text = "\"([^\"\\\\]|\\\\[\\\\n\"])*\""
    labels = "[{][a-zA-Z_][a-zA-Z0-9_]*=" text "(,[a-zA-Z_][a-zA-Z0-9_]*=" text ")*[}]"
    number = "([-+]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][-+]?[0-9]+)?|[-+]Inf|NaN)"
}
/^# HELP / {
    if ($0 !~ "^# HELP " name " ([^\\\\]|\\\\[\\\\n])+$") bad("not a line of help")
    if (helped != typed) bad("no type of " helped)
    if ($3 in seen) bad("a second time")
    if (NR > 1 && n == 0) bad("no sample of " helped)
    seen[$3] = 1
    helped = $3
    n = 0
    next
}
/^# TYPE / {
    if ($0 !~ "^# TYPE " name " (counter|gauge|untyped)$") bad("not a line of a type")
    if ($3 != helped || typed == helped) bad("a type without help")
    if ($4 == "counter" && $3 !~ /_total$/) bad("a counter is called _total")
    if ($4 != "counter" && $3 ~ /_(total|count|sum|bucket)$/) bad("of another type")
    typed = $3
    next
}
{
    if ($0 !~ "^" name "(" labels ")? " number "$") bad("not a sample")
    metric = $0
    sub(/[{ ].*/, "", metric)
    if (metric != typed) bad("not below its type")
    series = $0
    sub(" " number "$", "", series)
    if (series in seen_series) bad("a second time")
    seen_series[series] = 1
    n++
}
END {
    if (failed) exit 1
    if (NR == 0 || n == 0) {
        print "no sample at the end"
        exit 1
    }
}
