"""`pvn serve airsim` and `pvn demo`: what they refuse, and a demo that runs until it is interrupted."""

import os
import re
import signal
import sys
import threading
import urllib.request

import pytest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--port 70000", "port: got 70000, expected 0 to 65535"),
        ("--speed 0", "speed: got 0.0"),
        ("--settings nowhere.json", "settings: cannot read nowhere.json"),
        ("--width 0", "image size: got 0 x 144"),
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
