"""What others run the project with: the notebook for hosted machines, and the container file of the demo."""

import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest
import tyro

from pvn.cli.demo import Demo

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "notebooks" / "first_flight.ipynb"


@pytest.mark.long
def test_the_notebook_flies_and_shows_the_film(tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("imageio_ffmpeg")
    import nbformat

    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    (cell,) = [cell for cell in notebook.cells if "INSTRUCTION =" in cell.source]
    cell.source = re.sub('INSTRUCTION = ".*"', 'INSTRUCTION = "go to the gorilla"', cell.source)  # a shorter film
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    installing, flying, showing = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    assert re.match(r"pvn \d", "".join(output.text for output in installing)), "it is here already, and not installed"
    said = "".join(output.text for output in flying)
    assert "stopped " in said and "film: flights/field3_go-to-the-gorilla.mp4" in said
    assert "data:video/mp4;base64," in showing[0].data["text/html"]


def test_the_notebook_is_kept_without_what_it_printed():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells if cell["cell_type"] == "code")


def instructions():
    """Kind and rest of each instruction of the container file."""
    text = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line and not line.startswith("#")]


def test_the_container_copies_what_the_build_context_has():
    shown = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {name for kind, rest in instructions() if kind == "COPY" for name in rest.split()[:-1]}
    assert copied == shown and all((ROOT / name).exists() for name in copied)


def test_the_container_serves_the_demo_to_everyone_who_reaches_it():
    (command,) = [json.loads(rest) for kind, rest in instructions() if kind == "CMD"]
    words = shlex.split(re.sub(r"\$\{PORT:-(\d+)\}", r"\1", command[-1]))
    assert words[:3] == ["exec", "pvn", "demo"]
    demo = tyro.cli(Demo, args=words[3:])
    assert demo.host == "0.0.0.0" and ("EXPOSE", str(demo.port)) in instructions()
