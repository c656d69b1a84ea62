"""Every tutorial, from top to bottom as a reader would follow it, and what it says is printed."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from pvn.cli import main

PAGES = sorted((Path(__file__).parent.parent / "docs" / "tutorials").glob("*.md"))
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def blocks(page):
    """Kind and text of the blocks of a page, in order."""
    return re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def run_commands(text):
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        assert not words or words[0] == "pvn", f"{line}: only pvn's own verbs can be run everywhere"
        if words:
            main(words[1:])


def assert_told_truthfully(printed, told):
    """The same words; numbers may differ as far as machines do."""
    printed, told = ("\n".join(line.rstrip() for line in text.strip().splitlines()) for text in (printed, told))
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", told), printed
    for got, expected in zip(NUMBER.findall(printed), NUMBER.findall(told), strict=True):
        assert float(got) == pytest.approx(float(expected), rel=0.2, abs=0.5), printed


def test_there_is_a_page_for_each_thing_to_bring():
    assert [page.stem for page in PAGES] == ["gymnasium", "own_data", "own_field", "own_phrases"]


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_tutorial_runs_from_top_to_bottom_and_prints_what_it_says(page, tmp_path, monkeypatch):
    if "stable_baselines3" in page.read_text():
        pytest.importorskip("stable_baselines3", reason="needs Stable-Baselines3: pip install stable-baselines3")
    monkeypatch.chdir(tmp_path)
    names, printed = {"__name__": "__main__"}, ""
    for kind, text in blocks(page):
        if kind == "text":
            assert_told_truthfully(printed, text)
            continue
        with contextlib.redirect_stdout(io.StringIO()) as screen:
            run_commands(text) if kind == "bash" else exec(compile(text, page.name, "exec"), names)
        printed = screen.getvalue()
