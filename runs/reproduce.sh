#!/usr/bin/env bash
# The paper's results table, step by step, on one GPU. PVN learns in six minutes on an H200.
# `pvn reproduce --out reproduction --device cuda` does the same in one go, and goes on where it was cut.
# Small, on a CPU: `pvn reproduce --out smoke --preset smoke`.
set -euo pipefail

# The corpus: 27,965 instructions and their flights. A minute on two cores.
pvn corpus make --size 27965 --out reproduction/corpus

# Every system that learns. A run that was stopped goes on with --resume. TensorBoard: reproduction/runs/*/logs.
pvn train --system chaplot --preset paper --corpus reproduction/corpus --out reproduction/runs/chaplot --device cuda
pvn train --system gsmn --preset paper --corpus reproduction/corpus --out reproduction/runs/gsmn --device cuda
pvn train --system pvn --preset paper --corpus reproduction/corpus --out reproduction/runs/pvn --device cuda
pvn train --system pvn-no-aux --preset paper --corpus reproduction/corpus --out reproduction/runs/pvn-no-aux --device cuda
pvn train --system pvn-no-goal --preset paper --corpus reproduction/corpus --out reproduction/runs/pvn-no-goal --device cuda --stage1 reproduction/runs/pvn
pvn train --system pvn-no-dagger --preset paper --corpus reproduction/corpus --out reproduction/runs/pvn-no-dagger --device cuda --stage1 reproduction/runs/pvn
pvn train --system pvn-no-instruction --preset paper --corpus reproduction/corpus --out reproduction/runs/pvn-no-instruction --device cuda
pvn train --system pvn-full-observation --preset paper --corpus reproduction/corpus --out reproduction/runs/pvn-full-observation --device cuda

# Every system flies the split it has in the paper's table; the first six fly both. Flights are kept, and flown once.
pvn evaluate stop average chaplot gsmn pvn oracle --corpus reproduction/corpus --split test --runs reproduction/runs --out reproduction/results --device cuda
pvn evaluate stop average chaplot gsmn pvn oracle pvn-no-aux pvn-no-goal pvn-no-dagger pvn-no-instruction pvn-ideal-act pvn-full-observation pvn-half-height pvn-double-yaw-rate --corpus reproduction/corpus --split dev --runs reproduction/runs --out reproduction/results --device cuda

# What PVN's predictions are worth: the paper's theorem 5.1, and whether the goal is where it is predicted.
pvn evaluate pvn --bound --corpus reproduction/corpus --split dev --runs reproduction/runs --out reproduction/results --device cuda

# All of this is found finished; what is left is the report: reproduction/report.md.
pvn reproduce --out reproduction --preset paper --device cuda
