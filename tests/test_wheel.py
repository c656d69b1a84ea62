"""The wheel, installed outside the checkout, has everything it needs to fly."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from matplotlib.image import imread

import pvn

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.slow


def run(*command, folder):
    """Run a program as someone who has no checkout."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(part) for part in command], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy, so that neither old build files get in nor new ones stay behind."""
    folder = tmp_path_factory.mktemp("build")
    source = folder / "source"
    shutil.copytree(ROOT / "src" / "pvn", source / "src" / "pvn", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run(
        sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation",
        "--wheel-dir", folder, source, folder=folder,
    )  # fmt: skip
    (built,) = folder.glob("*.whl")
    return built


def borrowing_environment(folder):
    """A fresh virtual environment that borrows everything from this one, but for what is installed editable here."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, folder=folder.parent)
    python = folder / "bin" / "python"
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=folder).strip()
    # A plain path: the .pth files in that folder, which may lead to the checkout, are not followed.
    (Path(site) / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def install(python, *what, folder):
    """Install into an environment without pip, from what is here."""
    options = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation")
    run(sys.executable, "-m", "pip", "--python", python, "install", *options, *what, folder=folder)


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A fresh virtual environment with the wheel."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    install(borrowing_environment(folder), wheel, folder=folder)
    return folder


def test_the_wheel_has_the_package_and_its_data_and_nothing_else(wheel):
    assert wheel.name.startswith(f"pvn_drone-{pvn.__version__}-py3-none-any")
    names = zipfile.ZipFile(wheel).namelist()
    ours = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src/pvn").rglob("*") if path.is_file()}
    assert {name for name in names if ".dist-info/" not in name} == {name for name in ours if "__pycache__" not in name}
    assert "pvn/py.typed" in names
    assert {f"pvn/weights/{agent}.safetensors" for agent in ("pvn", "gsmn", "chaplot")} <= set(names)
    assert any(name.startswith("pvn/corpus/meadow/phrase_banks/") for name in names)
    assert {f"pvn/corpus/natural/{split}.npz" for split in ("train", "dev")} <= set(names)


def test_the_installed_wheel_flies(environment, tmp_path):
    where = run(environment / "bin" / "python", "-c", "import pvn; print(pvn.__file__)", folder=tmp_path)
    assert Path(where.strip()).is_relative_to(environment)
    said = run(environment / "bin" / "pvn", "fly", "--field", "7", "--segment", "1", "--out", "flown", folder=tmp_path)
    (picture,) = (tmp_path / "flown").glob("*.png")
    assert picture.name in said.replace("\n", "") and imread(picture).std() > 0.1


def test_the_installed_wheel_is_typed(environment, tmp_path):
    pytest.importorskip("mypy", reason="needs mypy")
    (tmp_path / "program.py").write_text("from pvn.world.layout import sample_layout\nreveal_type(sample_layout(0))\n")
    told = run(
        sys.executable, "-m", "mypy", "--strict", "--follow-imports", "silent", "--cache-dir", tmp_path / "cache",
        "--python-executable", environment / "bin" / "python", "program.py", folder=tmp_path,
    )  # fmt: skip
    assert 'Revealed type is "pvn.world.layout.Layout"' in told


def test_the_parent_folder_of_a_clone_named_pvn_finds_the_package(tmp_path):
    """The clone's own name is that of the package; in its parent folder Python must not take the one for the other."""
    run("git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", tmp_path / "pvn", folder=tmp_path)
    python = borrowing_environment(tmp_path / "pvn" / ".venv")
    install(python, "--editable", tmp_path / "pvn", folder=tmp_path)
    assert "Task" in run(python, "-c", "import pvn; print(pvn.Task)", folder=tmp_path)
