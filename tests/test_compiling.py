"""Compiled code is cached on disk, and never older than its sources."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import pvn
from pvn.compiling import UNUSED_DAYS, from_python
from pvn.simulator.rays import fence_top

PACKAGE = Path(pvn.__file__).parent
SCENE = """
import numpy as np
from pvn.corpus.meadow.scene import in_sight, is_clear

behind, at_the_fence, none = np.array([[-10.0, 0.0]]), np.array([[49.5, 25.0]]), np.empty((0, 2))
seen = in_sight(behind, 0.0, 0.0, 0.0, 0.0, 1.0, 20.0)
print(len(seen), is_clear(at_the_fence, none, np.empty(0)), sum(is_clear.stats.cache_hits.values()))
"""


def change(file, before, after):
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


@pytest.mark.long
def test_a_change_of_a_function_or_a_number_in_another_file_is_noticed(tmp_path):
    copy = tmp_path / "pvn"
    shutil.copytree(PACKAGE, copy, ignore=lambda folder, names: [
        name for name in names if not (Path(folder) / name).is_dir() and not name.endswith(".py")
    ])  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("NUMBA_CACHE_DIR", None)

    def run():
        ran = subprocess.run(
            [sys.executable, "-c", SCENE], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return ran.stdout.split()

    assert run() == ["0", "False", "0"]
    assert run() == ["0", "False", "1"], "the second time, the cached code is loaded"
    (old,) = (tmp_path / "cache" / "pvn" / "kernels").glob("scene-*")
    change(copy / "paths.py", "(angle + math.pi) % (2 * math.pi) - math.pi", "0 * angle")
    assert run() == ["1", "False", "0"], "now every direction is ahead"
    os.utime(old, (0, time.time() - (UNUSED_DAYS + 1) * 86400))
    change(copy / "world" / "layout.py", "FIELD_SIZE = 50.0", "FIELD_SIZE = 60.0")
    assert run() == ["1", "True", "0"], "now the fence is elsewhere"
    assert not old.exists(), "code that has been out of use for a month is removed"


def test_only_compiling_decides_what_is_cached_and_where():
    """A function that Numba caches by itself would not notice changes elsewhere."""
    for path in PACKAGE.rglob("*.py"):
        if path not in (PACKAGE / "compiling.py", PACKAGE / "simulator" / "cuda.py"):
            assert not re.search(r"\bcache=True", path.read_text()), path


def test_a_scalar_function_is_called_from_python_by_another_that_calls_it():
    """Called without, it would crash: no code is made that would convert Python's numbers."""
    assert from_python(fence_top)(np.float32(1.25)) == pytest.approx(2.4)
    with pytest.raises(TypeError, match="from_python"):
        fence_top(np.float32(1.25))
