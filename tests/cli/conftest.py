"""What tests of the verbs share: a way to run them, a way to read what they refuse, and a small corpus."""

import re
import shlex
from pathlib import Path

import pytest

from pvn.cli import main
from pvn.corpus.store import write_corpus
from pvn.viz import flight_files


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")  # so that tables are not wrapped


@pytest.fixture(scope="session")
def run():
    """Run a command as it would be typed."""
    return lambda command: main(shlex.split(command)[1:])


@pytest.fixture
def printed(run, capsys):
    """Run a command and return what it prints on standard output."""

    def run_and_read(command):
        capsys.readouterr()
        run(command)
        return capsys.readouterr().out

    return run_and_read


@pytest.fixture
def refused(run, capsys):
    """Run a command that must be refused, and return the message on one line."""

    def run_and_read(command):
        capsys.readouterr()
        with pytest.raises(SystemExit) as error:
            run(command)
        message = capsys.readouterr().err
        assert error.value.code == 2 and "Traceback" not in message
        return re.sub(r"[│╭╮╰╯─\s]+", " ", message)

    return run_and_read


@pytest.fixture
def help_text(run, capsys, monkeypatch):
    """The help of a command on one line."""

    def run_and_read(command):
        monkeypatch.setenv("COLUMNS", "80")  # a wider terminal shows it in two columns
        capsys.readouterr()
        with pytest.raises(SystemExit) as error:
            run(f"{command} --help")
        assert error.value.code == 0
        return re.sub(r"[│\s]+", " ", capsys.readouterr().out)

    return run_and_read


@pytest.fixture(scope="session")
def corpus_folder(meadow, tmp_path_factory):
    """The small corpus on disk. Do not change it."""
    folder = tmp_path_factory.mktemp("stored") / "corpus"
    write_corpus(meadow, folder, {"seed": 0, "size": 300})
    return folder


@pytest.fixture
def corpus(corpus_folder, in_an_empty_folder):
    """The small corpus as the folder `corpus` of the present one."""
    Path("corpus").symlink_to(corpus_folder)
    return corpus_folder


@pytest.fixture
def bare(undrawn, monkeypatch):
    """Neither rerun nor ffmpeg is installed."""
    monkeypatch.setattr(flight_files, "has_rerun", lambda: False)
    monkeypatch.setattr(flight_files, "has_ffmpeg", lambda: False)
