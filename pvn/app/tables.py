"""Reports as tables on the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from pvn.evaluation.oracle_benchmark import PAPER
from pvn.evaluation.simulator_benchmark import NUM_FIELDS, QUALITIES


def print_simulator_report(report: dict[str, Any]) -> None:
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
        table.add_row(name.removesuffix("_fps").replace("_", ", ", 1).replace("_", " "), f"{rate:,.0f}", *ratios)
    console.print(table)
    for name, reason in report.get("peers_that_failed", {}).items():
        console.print(f"{name} is installed but does not run here: {reason}")
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
            f"full; physics and picture of a step {cuda['full_step_ms']:.1f} ms in a loop, "
            f"{cuda['full_step_alone_ms']:.1f} ms alone; {cuda['memory_gib']:.2f} GiB"
        )


def print_oracle_report(report: dict[str, Any]) -> None:
    """The report as a table beside the paper's figures."""
    table = Table(title=f"oracle over {report['segments']} segments")
    for heading in ("figure", "here", "paper"):
        table.add_column(heading, justify="left" if heading == "figure" else "right")
    for name, value in PAPER.items():
        table.add_row(name.replace("_", " "), f"{report[name]:.2f}", f"{value:g}")
    Console().print(table)
