# table.py COVERAGE.json: the branches that are reached of each file, the lines that have
# others, and the sums of each room. Fails if all rooms together have less than they must.
import json
import os
import sys

MUST = {"lines": 98.5, "branches": 94.5}


def percent(some):
    return 100 * sum(x["count"] > 0 for x in some) / len(some) if some else 100


def text(some):
    return "%7.2f%% %5d/%-5d" % (percent(some), sum(x["count"] > 0 for x in some), len(some))


def print_file(file, lines):
    print("%-36s %s" % (file["file"], text([way for x in lines for way in x["branches"]])))
    for line in lines:
        n = sum(way["count"] == 0 for way in line["branches"])
        if n:
            print("    line %d: %d of %d" % (line["line_number"], n, len(line["branches"])))


def main(report):
    rooms = {}
    for file in json.load(open(report))["files"]:
        lines = [line for line in file["lines"] if not line["gcovr/noncode"]]
        print_file(file, lines)
        for room in os.path.dirname(file["file"]), "all":
            rooms.setdefault(room, []).extend(lines)
    print("\n%-24s %21s %21s" % ("room", *MUST))
    for room, lines in sorted(rooms.items(), key=lambda r: (r[0] == "all", r[0])):
        has = {"lines": lines, "branches": [way for x in lines for way in x["branches"]]}
        print("%-24s %s %s" % (room, text(has["lines"]), text(has["branches"])))
    low = [name for name in MUST if percent(has[name]) < MUST[name]]  # "all" comes last
    for name in low:
        print("FAILED: not %.1f%% of all %s" % (MUST[name], name))
    sys.exit(len(low) > 0)


main(*sys.argv[1:])
