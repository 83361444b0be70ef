#!/bin/sh
# Branch coverage of format/ and lib/filter by the tests: a table, one line a file, and
# a failure if a file that must reach 95% does not. Called by `make coverage`:
# coverage.sh BUILD, which was built with --coverage. unreached.md says what is missing.
set -u
build=$1
find "$build" -name '*.gcda' -delete
tests=$(find "$build/tests" -maxdepth 1 -name 'test_*' ! -name '*.*' | sort)
# shellcheck disable=SC2086
tests/unit.sh $tests || exit 1
"$build/tests/crash/explore" --states 5000 --seed 1 || exit 1
"$build/tests/rot/rot" --every 512 --pairs 100 --writers 40 --stores 10 || exit 1
[ ! -x "$build/tests/faults/faults" ] || "$build/tests/faults/faults" || exit 1

gcovr --root . --object-directory "$build" --filter 'format/' --filter 'lib/filter/' \
    --exclude-throw-branches --json-summary "$build/coverage.json" \
    --html-details "$build/coverage.html" >/dev/null || exit 1
python3 - "$build/coverage.json" <<'PY'
import json, sys

MUST = {"writer", "add", "durable", "grow", "seal", "recover", "map", "builder", "finish"}
bad = 0
print("%-28s %8s %8s %9s" % ("file", "lines", "branches", "of"))
for f in json.load(open(sys.argv[1]))["files"]:
    name = f["filename"]
    n, hit = f["branch_total"], f["branch_covered"]
    must = name.startswith("format/") or name.split("/")[-1][:-2] in MUST
    low = must and n > 0 and hit < 0.95 * n
    bad += low
    print("%-28s %7.1f%% %7.1f%% %4d/%-4d %s" % (name, f["line_percent"] or 0,
          100 * hit / n if n else 100, hit, n, "BELOW 95%" if low else ""))
print("check-coverage: %d files below 95%% of their branches" % bad)
sys.exit(bad > 0)
PY
