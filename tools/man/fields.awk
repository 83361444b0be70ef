# The fields of one section of json.fields, with its groups in their places: -v section=NAME.
# A line each, with tabs: field, type, unit, meaning. With -v scdoc=1 as a table for scdoc, below
# the section's words.
function emit(path, type, unit, meaning) {
    if (!(path in at)) { at[path] = ++n_rows; paths[n_rows] = path }
    row[path] = type "\t" unit "\t" meaning
}
function expand(block, prefix,    i, cell, side) {
    if (!(block in n_lines)) { print "json.fields has no " block >"/dev/stderr"; failed = 1; exit 1 }
    for (i = 1; i <= n_lines[block]; i++) {
        delete cell
        split(lines[block, i], cell, / \| /)
        if (split(cell[1], side, / ?= /) < 2) { emit(prefix cell[1], cell[2], cell[3], cell[4]); continue }
        if (cell[3] != "") emit(prefix substr(side[1], 1, length(side[1]) - 2), "array", "-", cell[3])
        if (side[1] != "") emit(prefix side[1], "object", "-", cell[2] == "" ? "-" : cell[2])
        expand("group " side[2], prefix (side[1] == "" ? "" : side[1] "."))
    }
}
/^#/ || /^$/ { next }
/^(group|section) / {
    if (!alias) n_names = 0
    names[++n_names] = $0
    n_lines[$0] = 0
    alias = 1
    next
}
sub(/^> /, "") { about[names[1]] = about[names[1]] $0 "\n"; alias = 0; next }
{
    alias = 0
    for (i = 1; i <= n_names; i++) lines[names[i], ++n_lines[names[i]]] = $0
}
END {
    if (failed) exit 1
    expand("section " section, "")
    block = "section " section
    if (scdoc) print (block in about ? about[block] : "One object.\n")
    if (scdoc) print "|[ *Field*\n:[ *Type*\n:[ *Unit*\n:< *Meaning*"
    for (i = 1; i <= n_rows; i++) {
        split(row[paths[i]], cell, "\t")
        if (scdoc) printf "|  %s\n:  %s\n:  %s\n:  %s\n", paths[i], cell[1], cell[2], cell[3]
        else print paths[i] "\t" row[paths[i]]
    }
}
