#!/usr/bin/env bash
# Kills, full disks and read-only folders: `runs/chaos.sh --moments 20 --seed 0`; `--help` says more.
# In a new name space anyone may mount small disks; where that is forbidden, commands are only killed.
set -euo pipefail
python=${PYTHON:-python}
script=$(dirname "$0")/chaos.py
if unshare --map-root-user --mount true 2> /dev/null; then
    exec unshare --map-root-user --mount "$python" "$script" "$@"
fi
exec "$python" "$script" "$@"
