#!/usr/bin/env bash
# The paper's results table as plain commands, on one GPU. PVN alone trains in six minutes on an H200.
#
#     runs/reproduce.sh                                       # one thing after another
#     PRESET=quick OUT=quick JOBS=3 runs/reproduce.sh         # half the steps, and three things at a time
#
# `pvn reproduce --out reproduction --device cuda` does the same one after another. It also resumes what was interrupted here.
# On a CPU, `pvn reproduce --out smoke --preset smoke` shows that everything works.
set -euo pipefail
out=${OUT:-reproduction} preset=${PRESET:-paper} device=${DEVICE:-cuda}
train="--preset $preset --corpus $out/corpus --device $device"
flights="--corpus $out/corpus --device $device --runs $out/runs --out $out/results"

# Runs a command for each name, JOBS at a time, with the name in place of NAME.
for_each() { printf '%s\n' $1 | xargs -P "${JOBS:-1}" -I NAME "${@:2}"; }

# The corpus: 27,965 instructions in phrases and their flights. A minute on two cores.
pvn corpus make --size 27965 --without natural --out "$out/corpus"

# Every system that is trained; two take PVN's first stage. TensorBoard: runs/*/logs.
for_each "pvn pvn-full-observation pvn-no-aux pvn-no-instruction gsmn chaplot" \
    pvn train --agent NAME --out "$out/runs/NAME" $train
for_each "pvn-no-goal pvn-no-dagger" \
    pvn train --agent NAME --out "$out/runs/NAME" --stage1-from "$out/runs/pvn" $train

# Every system flies the split that it has in the paper's table; the first six fly both. Flights are saved.
both="stop average chaplot gsmn pvn oracle"
for_each "$both" pvn evaluate --agent NAME --split test $flights
for_each "$both pvn-no-aux pvn-no-goal pvn-no-dagger pvn-no-instruction pvn-ideal-act pvn-full-observation
    pvn-half-height pvn-height-0.7 pvn-double-yaw-rate" pvn evaluate --agent NAME --split dev $flights

# Second stages alone, by the demonstrated distributions: what is lost in execution, not in prediction.
for_each "pvn pvn-no-aux pvn-no-goal pvn-no-dagger pvn-no-instruction pvn-full-observation pvn-double-yaw-rate" \
    pvn evaluate --agent NAME --split dev --true-distributions $flights

# How good PVN's predictions are: the paper's theorem 5.1, and whether predicted goals are calibrated.
pvn evaluate --agent pvn --split dev --bound $flights

# All of this is finished now; only the report is left to write: report.md.
pvn reproduce --out "$out" --preset "$preset" --device "$device"
