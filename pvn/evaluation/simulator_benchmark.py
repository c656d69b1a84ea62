"""How fast the simulator is: `pvn bench simulator`."""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from pvn.evaluation.peers import PEERS, installed_peers, peer_frames_per_second, silenced
from pvn.simulator.simulator import Quality, Simulator, SimulatorConfig
from pvn.world.layout import Layout, sample_layout

NUM_FIELDS = 64
ROUNDS = 5
BATCHES = (1, 4, 16, 64, 256, 1024, 4096, 16_384)
HEADLINE_BATCH = {"cpu": 16, "cuda": 4096}
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
    """Starts (B, 3) all over the field, facing everywhere."""
    generator = torch.Generator().manual_seed(0)
    unit = torch.rand((count, 3), generator=generator, dtype=torch.float64)
    return unit * torch.tensor([40.0, 40.0, 6.28]) + torch.tensor([5.0, 5.0, -3.14])


def _simulator(layouts: list[Layout], batch: int, device: str, quality: Quality) -> Simulator:
    index = [flight % len(layouts) for flight in range(batch)]
    config = SimulatorConfig(quality=quality)
    simulator = Simulator(layouts, batch, field_index=index, device=device, config=config)
    simulator.reset(_starts(batch))
    return simulator


def _rate(work: Callable[[], object], batch: int, seconds: float, device: str) -> float:
    """Items a second: `work` does `batch` of them, again and again for at least `seconds`."""

    def settle() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    # A GPU works while the next launches are prepared, as in a training loop that does not wait for each step.
    count, repeats = 0, 10 if device == "cuda" else 1
    settle()
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for _ in range(repeats):
            work()
        settle()
        count += repeats * batch
    return count / (time.perf_counter() - begin)


def _growth(
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
            row[f"{quality}_flight_steps_per_s"] = _rate(
                lambda simulator=simulator, action=action: simulator.step(action),  # type: ignore[misc]
                batch, seconds, device,
            )  # fmt: skip
            advance()
        rows.append(row)
    return rows


def peak_memory_mb() -> float:
    """Most memory this process has held, MB."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count what the parent held when it started us
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return float(line.split()[1]) / 1e3
    unit = 1e6 if sys.platform == "darwin" else 1e3  # macOS counts bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _first_frame() -> dict[str, float]:
    """Seconds from the start of Python to the first frame, and its memory, with compiled code already kept."""
    begin = time.time()
    ran = subprocess.run([sys.executable, "-c", _FIRST_FRAME], capture_output=True, text=True, check=True)
    end, megabytes = ran.stdout.split()
    return {"first_frame_s": float(end) - begin, "first_frame_mb": float(megabytes)}


def _race(layouts: list[Layout], seconds: float, advance: Callable[[], None]) -> dict[str, list[float]]:
    """Frames a second of ours and of the peers on the CPU, in alternating rounds so that all see the same machine."""
    runners: dict[str, Callable[[], float]] = {}
    batch = HEADLINE_BATCH["cpu"]
    for quality in QUALITIES:
        # One field for all, so that every renderer draws the same scene.
        simulator = _simulator(layouts[:1], batch, "cpu", quality)
        runners[f"{quality}_fps"] = (
            lambda simulator=simulator: _rate(simulator.observe, batch, seconds, "cpu")  # type: ignore[misc]
        )
    poses = [((x, y, 5.0), yaw) for x, y, yaw in _starts(batch).tolist()]
    for name in installed_peers():
        with silenced():
            render = PEERS[name](layouts[0])
        runners[f"{name}_fps"] = (
            lambda render=render: peer_frames_per_second(render, poses, seconds)  # type: ignore[misc]
        )
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
        steps = _rate(lambda: simulator.step(action), batch, seconds, "cuda")  # noqa: B023
        report[f"{quality}_step_ms"] = 1e3 * batch / steps
        advance()
    report["memory_gib"] = (free_before - torch.cuda.mem_get_info()[0]) / 2**30
    report["growth"] = _growth(layouts, "cuda", max_batch, seconds, advance)
    return report


def measure_simulator(max_batch: int, seconds: float) -> dict[str, Any]:
    """All figures, as one JSON-ready object; progress goes to standard error."""
    if max_batch < 1:
        raise ValueError(f"max_batch: got {max_batch}, expected at least 1")
    layouts = [sample_layout(seed) for seed in range(NUM_FIELDS)]
    has_cuda = torch.cuda.is_available()
    curve = 2 * sum(batch <= max_batch for batch in BATCHES)
    total = ROUNDS * (2 + len(installed_peers())) + curve + 1 + (curve + 2 if has_cuda else 0)
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("measuring", total=total)

        def advance() -> None:
            progress.advance(bar)

        rates = _race(layouts, seconds, advance)
        middle = {name: statistics.median(values) for name, values in rates.items()}
        cpu: dict[str, Any] = {"name": platform.processor() or platform.machine(), "cores": os.cpu_count()}
        cpu |= {f"{quality}_fps": middle.pop(f"{quality}_fps") for quality in QUALITIES}
        cpu |= _first_frame()
        advance()
        cpu["growth"] = _growth(layouts, "cpu", max_batch, seconds, advance)
        report: dict[str, Any] = {"cpu": cpu, "peers": middle, "rounds": rates}
        if has_cuda:
            report["cuda"] = _measure_cuda(layouts, max_batch, seconds, advance)
    return json.loads(json.dumps(report))  # type: ignore[no-any-return]


def print_report(report: dict[str, Any]) -> None:
    """The report as tables."""
    console = Console()
    cpu = report["cpu"]
    table = Table(title=f"one field, 128x72, {cpu['cores']} CPU cores")
    for heading in ("renderer", "frames/s", "fast is", "full is"):
        table.add_column(heading, justify="left" if heading == "renderer" else "right")
    for quality in QUALITIES:
        table.add_row(f"pvn, {quality}", f"{cpu[f'{quality}_fps']:,.0f}", "", "")
    for name, rate in report["peers"].items():
        ratios = (f"{cpu[f'{quality}_fps'] / rate:.1f} times" for quality in QUALITIES)
        table.add_row(name.removesuffix("_fps"), f"{rate:,.0f}", *ratios)
    console.print(table)
    console.print(
        f"first frame {cpu['first_frame_s']:.1f} s after the start of Python, in {cpu['first_frame_mb']:.0f} MB"
    )
    for device in ("cpu", "cuda"):
        if device not in report:
            continue
        growth = Table(title=f"{device}: {NUM_FIELDS} fields, growth with the batch")
        for heading in ("batch", "fast frames/s", "full frames/s", "fast flight-steps/s", "full flight-steps/s"):
            growth.add_column(heading, justify="right")
        for row in report[device]["growth"]:
            growth.add_row(*(f"{row[key]:,.0f}" for key in (
                "batch", "fast_fps", "full_fps", "fast_flight_steps_per_s", "full_flight_steps_per_s",
            )))  # fmt: skip
        console.print(growth)
    if "cuda" in report:
        cuda = report["cuda"]
        console.print(
            f"{cuda['name']}, batch {cuda['batch']}: {cuda['fast_fps']:,.0f} frames/s fast, {cuda['full_fps']:,.0f} "
            f"full; physics and picture of a step {cuda['full_step_ms']:.1f} ms; {cuda['memory_gib']:.2f} GiB"
        )
