"""How fast the simulator is: `pvn bench simulator`."""

from __future__ import annotations

import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress

from pvn.evaluation.peers import Render, peer_frames_per_second, working_peers
from pvn.simulator.interface import Quality, SimulatorConfig
from pvn.simulator.simulator import Simulator
from pvn.world.layout import Layout, sample_layout

NUM_FIELDS = 64
ROUNDS = 5
BATCHES = (1, 4, 16, 64, 256, 1024, 4096, 16_384)
HEADLINE_BATCH = {"cpu": 256, "cuda": 4096}
QUALITIES: tuple[Quality, ...] = ("fast", "full")

_FIRST_FRAME = """
import time
import torch
from pvn.simulator.simulator import Simulator
from pvn.world.layout import sample_layout
simulator = Simulator([sample_layout(0)], 1)
simulator.reset(torch.tensor([[25.0, 25.0, 0.0]]))
print(time.time())
from pvn.evaluation.simulator_benchmark import peak_memory_mb
print(peak_memory_mb())
"""


def _starts(count: int) -> torch.Tensor:
    """Starts (B, 3) spread over the field, with random headings."""
    generator = torch.Generator().manual_seed(0)
    unit = torch.rand((count, 3), generator=generator, dtype=torch.float64)
    return unit * torch.tensor([40.0, 40.0, 6.28]) + torch.tensor([5.0, 5.0, -3.14])


def _simulator(layouts: list[Layout], batch: int, device: str, quality: Quality) -> Simulator:
    index = [flight % len(layouts) for flight in range(batch)]
    config = SimulatorConfig(quality=quality)
    simulator = Simulator(layouts, batch, field_index=index, device=device, config=config)
    simulator.reset(_starts(batch))
    return simulator


def _rate(work: Callable[[], object], batch: int, seconds: float, device: str, repeats: int | None = None) -> float:
    """Items a second: `work` does `batch` of them and is repeated for at least `seconds`.

    A GPU is synchronised after every `repeats` calls, ten by default: it works while the next launches are prepared,
    as in a training loop that does not wait for each step.
    """

    def settle() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    count, repeats = 0, repeats or (10 if device == "cuda" else 1)
    settle()
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for _ in range(repeats):
            work()
        settle()
        count += repeats * batch
    return count / (time.perf_counter() - begin)


def _rates_by_batch(
    layouts: list[Layout], device: str, max_batch: int, seconds: float, advance: Callable[[], None]
) -> list[dict[str, float]]:
    """Frames and flight-steps a second for each batch and quality."""
    rows = []
    for batch in (batch for batch in BATCHES if batch <= max_batch):
        row: dict[str, float] = {"batch": batch}
        for quality in QUALITIES:
            simulator = _simulator(layouts, batch, device, quality)
            action = torch.tensor([[2.0, 0.3, 0.0]], device=simulator.device).repeat(batch, 1)
            simulator.step(action)
            row[f"{quality}_fps"] = _rate(simulator.observe, batch, seconds, device)
            row[f"{quality}_flight_steps_per_s"] = _rate(partial(simulator.step, action), batch, seconds, device)
            advance()
        rows.append(row)
    return rows


def peak_memory_mb() -> float:
    """Peak memory of this process, MB."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count the parent's memory, too
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return float(line.split()[1]) / 1e3
    import resource  # not on Windows

    unit = 1e6 if sys.platform == "darwin" else 1e3  # macOS counts bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _first_frame() -> dict[str, float]:
    """Seconds from the start of Python to the first frame, and its memory, with compiled code already cached."""
    begin = time.time()
    ran = subprocess.run([sys.executable, "-c", _FIRST_FRAME], capture_output=True, text=True, check=True)
    end, megabytes = ran.stdout.split()
    return {"first_frame_s": float(end) - begin, "first_frame_mb": float(megabytes)}


def _race(
    layout: Layout, peers: dict[str, Render], max_batch: int, seconds: float, advance: Callable[[], None]
) -> dict[str, list[float]]:
    """Frames a second of ours and of the peers on the CPU, in alternating rounds so that all see the same machine."""
    runners: dict[str, Callable[[], float]] = {}
    batch = min(HEADLINE_BATCH["cpu"], max_batch)
    for quality in QUALITIES:
        # One field for all, so that every renderer draws the same scene.
        simulator = _simulator([layout], batch, "cpu", quality)
        runners[quality] = partial(_rate, simulator.observe, batch, seconds, "cpu")
    poses = [((x, y, 5.0), yaw) for x, y, yaw in _starts(16).tolist()]
    for name, render in peers.items():
        runners[name] = partial(peer_frames_per_second, render, poses, seconds)
    rates: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(ROUNDS):
        for name, run in runners.items():
            rates[name].append(run())
            advance()
    return rates


def _measure_cuda(layouts: list[Layout], max_batch: int, seconds: float, advance: Callable[[], None]) -> dict[str, Any]:
    batch = min(HEADLINE_BATCH["cuda"], max_batch)
    report: dict[str, Any] = {"name": torch.cuda.get_device_name(), "batch": batch}
    free_before = torch.cuda.mem_get_info()[0]
    for quality in QUALITIES:
        simulator = _simulator(layouts, batch, "cuda", quality)
        action = torch.tensor([[2.0, 0.3, 0.0]], device="cuda").repeat(batch, 1)
        simulator.step(action)
        rates = [_rate(simulator.observe, batch, seconds, "cuda") for _ in range(ROUNDS)]
        report[f"{quality}_fps"] = statistics.median(rates)
        step = partial(simulator.step, action)
        report[f"{quality}_step_ms"] = 1e3 * batch / _rate(step, batch, seconds, "cuda")
        report[f"{quality}_step_alone_ms"] = 1e3 * batch / _rate(step, batch, seconds, "cuda", repeats=1)
        advance()
    report["memory_gib"] = (free_before - torch.cuda.mem_get_info()[0]) / 2**30
    report["growth"] = _rates_by_batch(layouts, "cuda", max_batch, seconds, advance)
    return report


def measure_simulator(max_batch: int, seconds: float) -> dict[str, Any]:
    """All measurements, as one JSON-ready object; progress goes to standard error."""
    if max_batch < 1:
        raise ValueError(f"max_batch: got {max_batch}, expected at least 1")
    if not 0 < seconds < math.inf:
        raise ValueError(f"seconds: got {seconds}, expected a positive number")
    layouts = [sample_layout(seed) for seed in range(NUM_FIELDS)]
    peers, failures = working_peers(layouts[0])
    has_cuda = torch.cuda.is_available()
    curve = 2 * sum(batch <= max_batch for batch in BATCHES)
    total = ROUNDS * (2 + len(peers)) + curve + 1 + (curve + 2 if has_cuda else 0)
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("measuring", total=total)

        def advance() -> None:
            progress.advance(bar)

        rates = _race(layouts[0], peers, max_batch, seconds, advance)
        middle = {f"{name}_fps": statistics.median(values) for name, values in rates.items()}
        cpu: dict[str, Any] = {"name": platform.processor() or platform.machine(), "cores": os.cpu_count()}
        cpu |= {f"{quality}_fps": middle.pop(f"{quality}_fps") for quality in QUALITIES}
        cpu |= _first_frame()
        advance()
        cpu["growth"] = _rates_by_batch(layouts, "cpu", max_batch, seconds, advance)
        report: dict[str, Any] = {"cpu": cpu, "peers": middle, "rounds": rates}
        if failures:
            report["peers_that_failed"] = failures
        if has_cuda:
            report["cuda"] = _measure_cuda(layouts, max_batch, seconds, advance)
    return report
