# Turns the text of `tamis help TOPIC` into scdoc. Lines at the margin are prose;
#   "  -j, --jobs N    words" (two columns, the second may go on below) is a list;
# other indented lines, such as examples, stand as they are.
function escape(s) {
    gsub(/[\\*_]/, "\\\\&", s)
    return s
}
# First characters that would begin something, for scdoc or for roff.
function prose(s) {
    sub(/^\.\.\./, "\342\200\246", s)
    return s ~ /^[#|<>;[\]-]/ ? "\\" s : s
}
# "-s, --factor S": what is typed is bold, what it stands for underlined.
function term(s, out) {
    out = ""
    while (match(s, /--?[a-z0-9][a-z0-9-]*|[A-Z][A-Z]*[A-Z0-9_]*/)) {
        mark = substr(s, RSTART, 1) == "-" ? "*" : "_"
        out = out escape(substr(s, 1, RSTART - 1)) mark substr(s, RSTART, RLENGTH) mark
        s = substr(s, RSTART + RLENGTH)
    }
    return out escape(s)
}
function become(what) {
    if (state == "literal" && what != "literal")
        print "```"
    if (what != state && state != "")
        print ""
    if (what == "literal" && state != "literal")
        print "```"
    state = what
}
# "STORE KEY... | STORE --keys FILE [--count | --quiet]": a line for each way to call it.
function usage(s, n, i, ways) {
    while (match(s, /\[[^][]* \| [^][]*\]/)) {
        i = RSTART + index(substr(s, RSTART), " | ") - 1
        s = substr(s, 1, i - 1) "\001" substr(s, i + 3)
    }
    n = split(s, ways, / \| /)
    for (i = 1; i <= n; i++) {
        s = "*" name "* " term(ways[i])
        gsub(/\001/, " | ", s)
        print s (i < n ? "++" : "")
    }
    print ""
}

NR == 1 && /^usage: / {
    sub(/^usage: /, "")
    match($0, /^[a-z]+( [a-z]+)*/)
    name = substr($0, 1, RLENGTH)
    usage(substr($0, RLENGTH + 2))
    next
}
/^$/ {
    if (state == "literal")
        print ""
    else
        become("")
    next
}
/^[^ ]/ { become("prose"); print prose(escape($0)); next }
# The second column begins after two blanks or more.
/^ +[^ ]([^ ]| [^ ])*  +[^ ]/ && !/^ +(tamis|\$|#) / && match($0, /[^ ]  +[^ ]/) {
    rest = substr($0, RSTART + RLENGTH - 1)
    left = substr($0, 1, RSTART)
    column = RSTART + RLENGTH - 1
    sub(/^ +/, "", left)
    if (left ~ /^[a-z][a-z0-9]* *$/ || left ~ /^[0-9]+$/)
        left = "*" left "*"
    else
        left = term(left)
    become("")
    print prose(left) "\n\t" prose(escape(rest))
    state = "list"
    next
}
state == "list" && match($0, /^ +/) && RLENGTH >= column - 4 && RLENGTH >= 6 {
    rest = substr($0, RLENGTH + 1)
    print "\t" prose(escape(rest))
    next
}
{ become("literal"); print }

END { become("") }
