"""Every command and every program of the first pages, run from top to bottom as a reader would."""

import json
import math
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import torch

import pvn
from pvn.cli import main
from pvn.world.lani import write_layout, write_route

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / name
    for name in ("README.md", "docs/commands.md", "docs/python.md", "docs/environment.md", "docs/metrics.md")
]


def blocks(page):
    """What is to be run: lines of its shell blocks that call pvn, and its Python blocks, in order."""
    for kind, text in re.findall(r"^```(bash|python)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
        if kind == "python":
            yield text
        else:
            lines = [line.split("#")[0].strip() for line in text.splitlines()]
            assert all(line.startswith("pvn ") for line in lines if line), f"{page.name}: only pvn runs everywhere"
            yield from filter(None, lines)


def marked(page, number, block):
    """Training is slow, and some of it needs a GPU."""
    marks = [pytest.mark.slow] * block.startswith("pvn train ")
    if "--device cuda" in block:
        marks.append(pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"))
    title = block if block.startswith("pvn ") else f"program {number}"
    return pytest.param(page, block, marks=marks, id=f"{page.name}: {title}")


def to_run():
    """All blocks, page after page; one that several pages have is run once."""
    found = {}
    for page in PAGES:
        for number, block in enumerate(blocks(page)):
            found.setdefault(block, marked(page, number, block))
    return list(found.values())


RUN = to_run()
MADE = {
    "corpus": "pvn corpus make --size 500 --out",
    "random_config_3.json": "pvn show field --field 3 --export",
}
"""What some commands make and others read, and how."""


def write_lani(folder):
    """LANI's files as drif has them, for one instruction."""
    segment = pvn.sample_paragraph(3)[0]
    (x, y, yaw), goal = segment.task.start, segment.demonstration.goal
    for name in ("configs", "paths"):
        (folder / name).mkdir(parents=True)
    write_layout(segment.task.layout, folder / "configs" / "random_config_12.json")
    write_route(segment.demonstration.path, folder / "paths" / "random_curve_12.json")
    record = {
        "id": 12, "instructions": [segment.task.instruction], "moves": ["F"], "start_rot": [90 - math.degrees(yaw)],
        "start_x": [x + 225], "start_z": [y + 225], "end_x": [goal[0] + 225], "end_z": [goal[1] + 225],
    }  # fmt: skip
    (folder / "train_annotations_6000.json").write_text(json.dumps([record]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a reader who types one command after the other, and has unpacked LANI there."""
    made = tmp_path_factory.mktemp("reader")
    write_lani(made / "LANI" / "configs")
    return made


def start_and_stop(command, folder):
    """Start a server, fetch its page, and interrupt it as a person would."""
    arguments = [sys.executable, "-m", "pvn.cli", *shlex.split(command)[1:]]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder) as server:
        try:
            line = next(line for line in server.stdout if "http://" in line)
            with urllib.request.urlopen(re.search(r"http://\S+", line)[0]) as page:
                assert b"<html" in page.read()
        finally:
            server.send_signal(signal.SIGINT)
        assert "interrupted" in server.communicate(timeout=60)[1] and server.returncode == 130


def test_there_is_something_to_run_on_every_page():
    counts = {page.name: len(list(blocks(page))) for page in PAGES}
    assert min(counts.values()) >= 1 and counts["README.md"] >= 6 and counts["commands.md"] >= 20, counts


@pytest.mark.long
@pytest.mark.parametrize(("page", "block"), RUN)
def test_it_runs_as_it_stands(page, block, folder, monkeypatch):
    monkeypatch.chdir(folder)
    for made, command in MADE.items():  # by another process, or by a test that was not asked for
        if made in block and not block.startswith(command) and not Path(made).exists():
            main(shlex.split(f"{command} {made}")[1:])
    if not block.startswith("pvn "):
        exec(compile(block, page.name, "exec"), {"__name__": "__main__"})
    elif block.startswith("pvn demo"):
        pytest.importorskip("viser", reason='needs the extra app: pip install ".[app]"')
        start_and_stop(f"{block} --port 0", folder)
    else:
        main(shlex.split(block)[1:])
