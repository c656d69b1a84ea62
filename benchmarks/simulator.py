"""Frames and flight steps per second of the simulator, beside other renderers where they are installed.

    python benchmarks/simulator.py                                  # every batch size, on every device here
    python benchmarks/simulator.py --max-batch 64 --seconds 0.2

MuJoCo and PyBullet draw the same field by the scenes that `pvn evaluate --look` flies through (pip install '.[bench]').
"""

from __future__ import annotations

import contextlib
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, get_args

import numpy as np
import torch
import tyro
from timing import print_report, rate

from pvn.geometry import Camera, rotation_body_camera, rotation_world_body
from pvn.simulator.interface import Look, Quality, SimulatorConfig
from pvn.simulator.looks.photographer import scene_maker
from pvn.simulator.looks.scene import parts_of
from pvn.simulator.simulator import Simulator
from pvn.world.layout import FIELD_SIZE, Layout, sample_layout

NUM_FIELDS = 64
ROUNDS = 5
BATCHES = (1, 4, 16, 64, 256, 1024, 4096, 16_384)
HEADLINE_BATCH = {"cpu": 256, "cuda": 4096}
QUALITIES: tuple[Quality, ...] = ("fast", "full")
FIRST_FRAME = """
import resource, time, torch
from pvn.simulator.simulator import Simulator
from pvn.world.layout import sample_layout
Simulator([sample_layout(0)], 1).reset(torch.tensor([[25.0, 25.0, 0.0]]))
print(time.time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def random_starts(count: int) -> torch.Tensor:
    """Poses (count, 3) spread over the field, with random headings."""
    unit = torch.rand((count, 3), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return unit * torch.tensor([FIELD_SIZE - 10, FIELD_SIZE - 10, 2 * torch.pi]) + torch.tensor([5.0, 5.0, -torch.pi])


def started(layouts: list[Layout], batch: int, device: str, quality: Quality) -> tuple[Simulator, Callable[[], object]]:
    """A simulator with a batch of flights in these fields, and its step, taken once."""
    index = [flight % len(layouts) for flight in range(batch)]
    config = SimulatorConfig(quality=quality)
    simulator = Simulator(layouts, batch, field_index=index, device=device, config=config)
    simulator.reset(random_starts(batch))
    action = torch.tensor([[2.0, 0.3, 0.0]], device=simulator.device).repeat(batch, 1)
    simulator.step(action)
    return simulator, partial(simulator.step, action)


def rates_by_batch(layouts: list[Layout], device: str, max_batch: int, seconds: float) -> list[dict[str, float]]:
    """Frames and flight steps per second for each batch size and quality."""
    rows = []
    for batch in (batch for batch in BATCHES if batch <= max_batch):
        row: dict[str, float] = {"batch": batch}
        for quality in QUALITIES:
            simulator, step = started(layouts, batch, device, quality)
            row[f"{quality}_fps"] = rate(simulator.observe, batch, seconds, device)
            row[f"{quality}_flight_steps_per_s"] = rate(step, batch, seconds, device)
        rows.append(row)
    return rows


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Keep what C libraries write to standard output, such as PyBullet's banner, out of the report."""
    sys.stdout.flush()
    before = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(before, 1)
        os.close(before)


def other_renderer(look: Look, layout: Layout) -> Callable[[], None]:
    """Takes 16 pictures of a field by another renderer."""
    camera, pose = Camera(), torch.zeros(16, 6, dtype=torch.float64)
    start = random_starts(len(pose))
    pose[:, :2], pose[:, 2], pose[:, 5] = start[:, :2], SimulatorConfig().altitude, start[:, 2]
    axes = (rotation_world_body(pose[:, 3:]) @ rotation_body_camera(camera)).numpy()
    scene = scene_maker(look)(parts_of(layout), camera)

    def take() -> None:
        for place, turn in zip(pose[:, :3].numpy(), axes, strict=True):
            np.asarray(scene.picture(place, turn))

    take()
    return take


def race(layout: Layout, max_batch: int, seconds: float) -> dict[str, Any]:
    """Frames per second on the CPU of ours and of others, in rounds by turns, so that all see the same machine."""
    batch, failures = min(HEADLINE_BATCH["cpu"], max_batch), {}
    runners = {
        f"pvn_{quality}": partial(rate, started([layout], batch, "cpu", quality)[0].observe, batch, seconds)
        for quality in QUALITIES
    }
    for look in get_args(Look):
        if look != "own":
            try:
                with silenced():
                    runners[look] = partial(rate, other_renderer(look, layout), 16, seconds)
            except Exception as error:  # what is missing or cannot draw here must not prevent the others
                failures[look] = str(error)
    rounds = [{name: run() for name, run in runners.items()} for _ in range(ROUNDS)]
    medians = {name: statistics.median(one[name] for one in rounds) for name in runners}
    return {"fps": medians, "rounds": rounds, "failed": failures}


def first_frame() -> dict[str, float]:
    """Seconds from the start of Python to the first frame, with compiled code cached, and the memory that it took."""
    began = time.time()
    ran = subprocess.run([sys.executable, "-c", FIRST_FRAME], capture_output=True, text=True, check=True)
    ended, megabytes = map(float, ran.stdout.split())
    return {"seconds": ended - began, "peak_mb": megabytes}


def measure_cuda(layouts: list[Layout], max_batch: int, seconds: float) -> dict[str, Any]:
    """The GPU: frames per second, and milliseconds of a step in a loop and of one that is waited for."""
    batch = min(HEADLINE_BATCH["cuda"], max_batch)
    report: dict[str, Any] = {"name": torch.cuda.get_device_name(), "batch": batch}
    free = torch.cuda.mem_get_info()[0]
    for quality in QUALITIES:
        simulator, step = started(layouts, batch, "cuda", quality)
        report[f"{quality}_fps"] = statistics.median(
            rate(simulator.observe, batch, seconds, "cuda") for _ in range(ROUNDS)
        )
        report[f"{quality}_step_ms"] = 1e3 * batch / rate(step, batch, seconds, "cuda")
        report[f"{quality}_step_alone_ms"] = 1e3 * batch / rate(step, batch, seconds, "cuda", repeats=1)
    report["memory_gib"] = (free - torch.cuda.mem_get_info()[0]) / 2**30
    return report | {"by_batch": rates_by_batch(layouts, "cuda", max_batch, seconds)}


def main(max_batch: int = BATCHES[-1], seconds: float = 1.0) -> None:
    """Measure each batch size up to `max_batch` for at least `seconds`."""
    layouts = [sample_layout(seed) for seed in range(NUM_FIELDS)]
    report: dict[str, Any] = {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "first_frame": first_frame(),
        "race": race(layouts[0], max_batch, seconds),
        "cpu": rates_by_batch(layouts, "cpu", max_batch, seconds),
    }
    if torch.cuda.is_available():
        report["cuda"] = measure_cuda(layouts, max_batch, seconds)
    print_report(report)


if __name__ == "__main__":
    tyro.cli(main)
