#!/bin/sh
# Says in three minutes whether a change is any good: one build with gcc, every unit
# test, the command line, and a sample of power cuts, kills, rot and faults. `make check`
# calls it; tests/check_all.sh has the rest.
cd "$(dirname "$0")/.." || exit 2
set -u
. tests/steps.sh
begin build/check.log

step "build with gcc, warnings are errors" build WERROR=-Werror all tests
step "check-layers" make check-layers
step "check-symbols" make check-symbols
step "check-calls" make check-calls
step "check-docs" make check-docs
step "check-planted" make check-planted
step "unit tests" make unit
step "command line" make cli
step "fuzz corpora" make fuzz-replay
step "power cuts, a sample" make crash-brief
step "kill -9, a sample" make kill-brief
step "rot, a sample" make rot-brief
step "every call fails, a sample" make faults-brief

end
