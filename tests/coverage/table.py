# table.py COVERAGE.json UNREACHED.md: prints the branches of each file that are
# reached, then each line with one that is not; fails if a file that must reach 95% does
# not, or if a function has more unreached branches than UNREACHED.md gives it. An
# entry there is "- `file` function: N, why", or "function: N; function: N, why". Last
# come the lines and branches of each room; those of the store are counted there only.
import json
import os
import re
import sys

# grow.c has 48 branches, and two to four of them are races or cannot be.
MUST = ["writer/writer", "writer/create", "writer/stage", "writer/add", "writer/commit",
        "writer/durable", "writer/floors", "writer/seal", "writer/recover", "page/map",
        "page/check", "builder/builder", "builder/finish"]
LEAST = 0.95


def must_reach(name):
    return name.startswith("format/") or name in [
        "lib/%s.%s" % (m, e) for m in MUST for e in "ch"]


def in_table(name):
    return re.match(r"(format|lib/(?!store/)\w+)/", name)


def print_rooms(files):
    rooms = {}
    for f in files:
        lines = [line for line in f["lines"] if not line["gcovr/noncode"]]
        ways = [way for line in lines for way in line["branches"]]
        for room in os.path.dirname(f["file"]), "all":
            sums = rooms.setdefault(room, [0, 0, 0, 0])
            for i, some in enumerate([lines, ways]):
                sums[2 * i] += sum(x["count"] > 0 for x in some)
                sums[2 * i + 1] += len(some)
    print("\n%-28s %18s %18s" % ("room", "lines", "branches"))
    for room, sums in sorted(rooms.items(), key=lambda r: (r[0] == "all", r[0])):
        print("%-28s" % room + "".join(" %7.2f%% %4d/%-5d" % (
            100 * n / of if of else 100, n, of) for n, of in (sums[:2], sums[2:])))


def listed(path):
    found = {}
    for line in open(path):
        m = re.match(r"- `([^`]+)` (.*)", line)
        for name, n in re.findall(r"(\w+): (\d+)(?=[,;] \S)", m[2]) if m else []:
            found[m[1], name] = found.get((m[1], name), 0) + int(n)
    return found


def unreached(file):
    """(function, line number, ways out that were not taken, ways out), a line each"""
    starts = sorted((f["lineno"], f["name"]) for f in file["functions"])
    for line in file["lines"]:
        ways = line["branches"]
        n = sum(way["count"] == 0 for way in ways)
        if n:
            before = [name for at, name in starts if at <= line["line_number"]]
            yield before[-1] if before else "?", line["line_number"], n, len(ways)


def main(report, excuses):
    every = [f for f in json.load(open(report))["files"] if f["lines"]]
    files = [f for f in every if in_table(f["file"])]
    why, missing, low = listed(excuses), {}, 0
    print("%-28s %9s %9s" % ("file", "branches", ""))
    for f in files:
        n = sum(len(line["branches"]) for line in f["lines"])
        not_taken = sum(k for _, _, k, _ in unreached(f))
        below = must_reach(f["file"]) and not_taken > (1 - LEAST) * n + 1e-9
        low += below
        print("%-28s %8.1f%% %4d/%-4d%s" % (
            f["file"], 100 * (n - not_taken) / n if n else 100, n - not_taken, n,
            " BELOW 95%" if below else "" if must_reach(f["file"]) else " (no limit)"))
        for function, at, k, of in unreached(f):
            missing.setdefault((f["file"], function), []).append((at, k, of))
    unlisted = 0
    print("\nnot reached:")
    for (file, function), lines in sorted(missing.items()):
        n = sum(k for _, k, _ in lines)
        excused = n <= why.get((file, function), 0)
        unlisted += not excused
        print("%s %s: %s%s" % (
            file, function, ", ".join("line %d (%d of %d)" % x for x in lines),
            "" if excused else "  NOT LISTED"))
    for key in sorted(set(why) - set(missing)):
        print("%s %s: all reached this time" % key)
    print_rooms(every)
    print("check-coverage: %d files below 95%% of their branches, %d functions with "
          "branches that are neither reached nor listed" % (low, unlisted))
    sys.exit(low > 0 or unlisted > 0)


main(*sys.argv[1:])
