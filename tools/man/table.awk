# A table of fields of SPEC.md as scdoc: -v table=NAME, as in "<!-- table: NAME -->".
# Columns: offset, field, type, meaning.
function escape(s) {
    gsub(/`/, "", s)
    gsub(/[\\*_]/, "\\\\&", s)
    return s
}
$0 == "<!-- table: " table " -->" { inside = 1; next }
inside && !/^\|/ { exit }
inside && /^\| *[0-9]/ {
    split($0, cell, / *\| */)
    print "*" escape(cell[3]) "*, " escape(cell[4]) " at byte " cell[2]
    print (cell[5] == "" ? "" : "\t" escape(cell[5]) "\n")
}
