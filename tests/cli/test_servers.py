"""`pvn serve airsim` and `pvn demo`: processes that run until they are interrupted."""

import re
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager

import pytest

from pvn.corpus.meadow.generator import sample_paragraph


@contextmanager
def started(command):
    """A process of the command, and the first line that it prints; interrupted at the end as by a person."""
    arguments = [sys.executable, "-m", "pvn.cli", *shlex.split(command)[1:]]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process, next(line for line in process.stdout if ":" in line)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=120)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


@pytest.mark.long
def test_an_airsim_server_says_where_it_is_and_ends_with_ctrl_c():
    pytest.importorskip("msgpack")
    options = "--field 3 --host 127.0.0.1 --port 0 --speed inf --quality fast --width 32 --height 18 --vehicle Drone1"
    with started(f"pvn serve airsim {options}") as (process, line):
        found = re.match(r"AirSim on 127.0.0.1:(\d+), (\d+) landmarks", line)
        assert int(found[2]) == len(sample_paragraph(3)[0].task.layout.landmarks)
        socket.create_connection(("127.0.0.1", int(found[1]))).close()
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--port 70000", "port: got 70000, expected 0 to 65535"),
        ("--speed 0", "speed: got 0.0"),
    ],
)
def test_an_airsim_server_that_cannot_be_is_refused(options, message, refused):
    pytest.importorskip("msgpack")
    assert message in refused(f"pvn serve airsim --quality fast {options}")


def test_without_msgpack_it_says_how_to_install_it(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "msgpack", None)
    for module in ("pvn.bridges.airsim.protocol", "pvn.bridges.airsim.server"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    message = refused("pvn serve airsim")
    assert 'msgpack is not installed; install it with: pip install "pvn-drone[airsim]"' in message


@pytest.mark.long
def test_the_demo_shows_a_page_and_ends_with_ctrl_c(corpus):
    pytest.importorskip("viser")
    options = "--port 0 --host 127.0.0.1 --visitors 2 --field 3 --corpus corpus --device cpu"
    with started(f"pvn demo {options}") as (process, line):
        with urllib.request.urlopen(re.search(r"http://\S+", line)[0]) as page:
            assert b"<html" in page.read()
    assert process.returncode == 130


def test_a_demo_without_the_runs_it_was_told_of_is_refused(refused):
    pytest.importorskip("viser")
    assert "runs: got ., which holds no runs" in refused("pvn demo --port 0 --runs .")
