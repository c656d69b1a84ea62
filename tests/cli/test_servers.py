"""What `pvn serve` and `pvn demo` refuse, and a demo that runs until it is interrupted."""

import os
import re
import signal
import sys
import threading
import urllib.request

import pytest


@pytest.mark.parametrize(
    ("command", "missing", "extra"),
    [
        ("serve airsim", "msgpack", "airsim"),
        ("serve mavlink", "pymavlink", "mavlink"),
        ("connect airsim 'go on'", "msgpackrpc", "airsim"),
        ("connect mavlink 'go on' --camera 0", "mavsdk", "mavlink"),
    ],
)
def test_what_is_not_installed_is_named_with_its_extra(command, missing, extra, refused, monkeypatch):
    light = ("options", "limits", "modes")
    for name in list(sys.modules):
        if name.startswith((missing, f"pvn.bridges.{extra}.")) and not name.endswith(light):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    assert f'is not installed; install it with: pip install "pvn-drone[{extra}]"' in refused(f"pvn {command}")


@pytest.mark.long
def test_the_demo_shows_a_page_and_ends_with_ctrl_c(corpus, run, monkeypatch):
    """Here, where torch is imported already; documented commands are tested as a process of its own."""
    pytest.importorskip("viser")
    reading, writing = os.pipe()
    pages, has_ended = [], threading.Event()

    def visit_and_interrupt():
        with open(reading) as printed:
            address = next(found[0] for line in printed if (found := re.search(r"http://\S+", line)))
            try:
                with urllib.request.urlopen(address) as page:
                    pages.append(page.read())
            finally:  # Python drops a KeyboardInterrupt that falls into a destructor; a person would press again
                while not has_ended.is_set():
                    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                    has_ended.wait(30)

    visitor = threading.Thread(target=visit_and_interrupt)
    with open(writing, "w") as screen, pytest.raises(SystemExit) as ended:
        monkeypatch.setattr(sys, "stdout", screen)
        visitor.start()
        try:
            run("pvn demo --port 0 --host 127.0.0.1 --visitors 2 --field 3 --corpus corpus --device cpu")
        finally:
            has_ended.set()
    visitor.join()
    assert ended.value.code == 130 and b"<html" in pages[0]


def test_a_demo_without_the_runs_it_was_told_of_is_refused(refused):
    pytest.importorskip("viser")
    assert "runs: got ., which holds no runs" in refused("pvn demo --port 0 --runs .")
