#!/bin/sh
# Says in three minutes whether a change is any good: one build with gcc, every unit
# test, the command line, and a sample of power cuts, kills, rot, faults and stops.
# `make check` calls it; tests/check_all.sh has the rest.
cd "$(dirname "$0")/.." || exit 2
set -u
. tests/steps.sh
begin build/check.log

units() {
    step "unit tests" make unit
    step "power cuts, a sample" make crash-brief
    step "rot, a sample" make rot-brief
    step "cancelled and stopped, a sample" make stops-brief
}
commands() {
    step "layers, symbols, calls, texts, planted bugs" \
        side_by_side check-layers check-symbols check-calls check-docs check-planted
    step "command line" make cli
    step "every call fails, a sample" make faults-brief
    step "fuzz corpora; kill -9, a sample" side_by_side fuzz-replay kill-brief
}

step "build with gcc, warnings are errors" build WERROR=-Werror all tests || { end; exit 1; }
streams units commands
end
