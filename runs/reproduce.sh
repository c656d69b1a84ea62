#!/usr/bin/env bash
# The paper's results table, step by step, on one GPU. PVN trains in six minutes on an H200.
# `pvn reproduce --out reproduction --device cuda` does the same in one command, and resumes where it stopped.
# A small version for a CPU: `pvn reproduce --out smoke --preset smoke`.
set -euo pipefail

# The corpus: 27,965 instructions and their flights, without those that people wrote. A minute on two cores.
pvn corpus make --size 27965 --without natural --out reproduction/corpus

# Every system that is trained. An interrupted run resumes with --resume. TensorBoard: reproduction/runs/*/logs.
pvn train --agent chaplot --preset paper --corpus reproduction/corpus --out reproduction/runs/chaplot --device cuda
pvn train --agent gsmn --preset paper --corpus reproduction/corpus --out reproduction/runs/gsmn --device cuda
pvn train --agent pvn --preset paper --corpus reproduction/corpus --out reproduction/runs/pvn --device cuda
pvn train --agent pvn-no-aux --preset paper --corpus reproduction/corpus --out reproduction/runs/pvn-no-aux --device cuda
pvn train --agent pvn-no-goal --preset paper --corpus reproduction/corpus --out reproduction/runs/pvn-no-goal --device cuda --stage1-from reproduction/runs/pvn
pvn train --agent pvn-no-dagger --preset paper --corpus reproduction/corpus --out reproduction/runs/pvn-no-dagger --device cuda --stage1-from reproduction/runs/pvn
pvn train --agent pvn-no-instruction --preset paper --corpus reproduction/corpus --out reproduction/runs/pvn-no-instruction --device cuda
pvn train --agent pvn-full-observation --preset paper --corpus reproduction/corpus --out reproduction/runs/pvn-full-observation --device cuda

# Every system flies the split it has in the paper's table; the first six fly both. Flights are saved and flown only once.
pvn evaluate --agent stop average chaplot gsmn pvn oracle --corpus reproduction/corpus --split test --runs reproduction/runs --out reproduction/results --device cuda
pvn evaluate --agent stop average chaplot gsmn pvn oracle pvn-no-aux pvn-no-goal pvn-no-dagger pvn-no-instruction pvn-ideal-act pvn-full-observation pvn-half-height pvn-height-0.7 pvn-double-yaw-rate --corpus reproduction/corpus --split dev --runs reproduction/runs --out reproduction/results --device cuda

# Second stages alone, by the demonstrated distributions: what is lost in execution, not in prediction.
pvn evaluate --agent pvn pvn-no-aux pvn-no-goal pvn-no-dagger pvn-no-instruction pvn-full-observation pvn-double-yaw-rate --corpus reproduction/corpus --split dev --runs reproduction/runs --out reproduction/results --device cuda --true-distributions

# How good PVN's predictions are: the paper's theorem 5.1, and whether predicted goals are calibrated.
pvn evaluate --agent pvn --corpus reproduction/corpus --split dev --runs reproduction/runs --out reproduction/results --device cuda --bound

# All of this is finished now; only the report is left to write: reproduction/report.md.
pvn reproduce --out reproduction --preset paper --device cuda
