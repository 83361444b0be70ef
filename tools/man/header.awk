# Turns lib/tamis.h into scdoc: -v part=comment gives the comment at its top; part=functions
# the names of functions under the titles of the headers, which are given in the order in
# which tamis.h includes them; part=codes -v enum=NAME the constants of an enum, each with
# its line.
function escape(s) {
    gsub(/`/, "", s)
    gsub(/[\\*_]/, "\\\\&", s)
    return s
}
function heading(s) { return "*" s "*" }

# The comment at the top: "WORDS IN CAPITALS. " begins a paragraph, deeper lines are a
# table.
part == "comment" {
    if (NR == 1)
        next
    last = sub(/ \*\/$/, "")
    sub(/^ \* ?/, "")
    table = /^  /
    if (table != was)
        print "```"
    was = table
    if (!table && match($0, /^[A-Z][A-Z ]+\. /))
        $0 = heading(substr($0, 1, RLENGTH - 1)) " " escape(substr($0, RLENGTH + 1))
    else if (!table)
        $0 = escape($0)
    print
    if (last)
        exit
    next
}

part == "codes" {
    if ($0 == "enum " enum " {")
        inside = 1
    else if (/^};/)
        inside = 0
    else if (inside && match($0, /TAMIS_[A-Z_]+/)) {
        print "*" substr($0, RSTART, RLENGTH) "*" (match($0, /= -?[0-9]+/) ? " (" substr($0, RSTART + 2, RLENGTH - 2) ")" : "")
        sub(/^[^\/]*(\/\* )?/, "")
        sub(/ \*\/$/, "")
        if ($0 != "")
            print "\t" escape($0)
        print ""
    }
    next
}

# "/* ---- title ----": the ruler may be on the next line.
/^\/\* ---- / {
    sub(/^\/\* ---- /, "")
    sub(/ *(-+ )?(\*\/)?$/, "")
    sub(/ -+$/, "")
    title = $0
    names = ""
}
{ code = $0; gsub(/\/\*.*\*\//, "", code) }
comment { if (/\*\//) comment = 0; next }
code ~ /\/\*/ { comment = 1; sub(/\/\*.*/, "", code) }
{
    while (match(code, /tamis_[a-z0-9_]+\(/)) {
        one = substr(code, RSTART, RLENGTH - 1)
        code = substr(code, RSTART + RLENGTH)
        if (one ~ /_fn$/ || one in seen)
            continue
        seen[one] = 1
        if (title != "") {
            print (n++ ? "\n" : "") heading(title)
            title = ""
            lead = "\t"
        }
        print lead "*" one "*()"
    }
}
