"""Help, versions, and what is said about names and options that do not exist."""

import re
import shlex
import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import torch

import pvn
from pvn.cli import Verb
from pvn.systems import SYSTEMS, TRAINED

TESTS = Path(__file__).parent.parent
HEAVY = ("torch", "numba", "matplotlib", "rich", "pvn.simulator", "pvn.model")


@pytest.mark.long
@pytest.mark.parametrize("command", ["--help", "fly --help", "evaluate --help", "figure gallery --help", "--version"])
def test_help_imports_nothing_heavy(command):
    program = (
        "import sys; from pvn.cli import main\n"
        f"try: main({shlex.split(command)!r})\n"
        "except SystemExit: pass\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


@pytest.mark.long
def test_a_reader_of_the_help_may_leave_early():
    with subprocess.Popen(
        [sys.executable, "-m", "pvn.cli", "train", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == ""


def test_the_version_is_the_packages(printed):
    line = printed("pvn --version")
    assert re.fullmatch(rf"pvn {re.escape(pvn.__version__)} \(Python 3\S+, torch \S+, .+\)\n", line)


def test_help_lists_every_verb(help_text):
    text = help_text("pvn")
    for verb in "fly demo show figure corpus train evaluate reproduce connect serve".split():
        assert f"• {verb} " in text


@pytest.mark.parametrize("command", ["fly", "show flight", "figure maps", "evaluate"])
def test_help_names_every_agent(command, help_text):
    text = help_text(f"pvn {command}").replace(" ", "")
    assert f"{{{','.join(SYSTEMS)}}}" in text


@pytest.mark.long
def test_help_of_train_names_what_is_trained(help_text):
    assert f"{{{','.join(TRAINED)}}}" in help_text("pvn train").replace(" ", "")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("pvn fly --agent eagle", "got 'eagle', expected one of stop, average, chaplot"),
        ("pvn fly --agent gsnm", "did you mean gsmn?"),
        ("pvn show flight --agent pvm", "did you mean pvn?"),
        ("pvn figure maps --agent pnv", "did you mean pvn?"),
        ("pvn evaluate --agent oracle pvn-no-axu --corpus c", "did you mean pvn-no-aux?"),
        ("pvn reproduce --agent pvn-no-axu --out o", "did you mean pvn-no-aux?"),
        ("pvn train --agent oracle --corpus c --out o", "got 'oracle', expected one of chaplot, gsmn, pvn"),
        ("pvn train --agent pvn-no-gaol --corpus c --out o", "did you mean pvn-no-goal?"),
        ("pvn fly --agent nowhere.safetensors", "got nowhere.safetensors, but there is no such file"),
        ("pvn evaluate --agent nowhere.safetensors --corpus c", "got nowhere.safetensors, but there is no such file"),
        ("pvn fly --agent run", "got the folder run, expected the file of the agent in it: run/agent.safetensors"),
        ("pvn evaluate --corpus c --split tset", "did you mean test?"),
        ("pvn fly --field nowhere.json", "got nowhere.json, but there is no such file"),
        ("pvn show field --field .", "got ., but there is no such file"),
        ("pvn fly --field -1", "got -1, expected 0 or more"),
        ("pvn serve airsim --field nowhere.json", "expected the number of a random field, or a LANI environment file"),
        ("pvn demo --field nowhere.json", "got nowhere.json, but there is no such file"),
        ("pvn show", "catalogue"),
        ("pvn flyy", "fly"),
        ("pvn fly --fild 3", "--field"),
        ("pvn evaluate --corpus c --agents pvn", "--agent"),
        ("pvn train --corpus c --out o --stage1.num-epoch 8", "--stage1.num-epochs"),
        ("pvn train --corpus c --out o --agent gsmn --stage2.betta 1", "--stage2.beta"),
        ("pvn train --corpus c --out o --stage2.beta half", "could not convert string to float: 'half'"),
    ],
)
def test_a_wrong_command_line_is_answered_with_what_was_meant(command, message, refused):
    Path("run").mkdir()
    Path("run/agent.safetensors").touch()
    assert message in refused(command)


@pytest.mark.parametrize(
    "command",
    [
        "pvn fly --pilot pvn",
        "pvn fly --weights a.safetensors",
        "pvn fly --file a.json",
        "pvn fly --save saved",
        "pvn show field --save a.json",
        "pvn show flight --number 2",
        "pvn serve airsim --scene a.json",
        "pvn demo --seed 3",
        "pvn figure gallery --say 'go home'",
        "pvn figure gallery --segments 1-0",
        "pvn evaluate pvn --corpus c",
        "pvn train --system pvn --corpus c --out o",
        "pvn reproduce --systems pvn --out o",
    ],
)
def test_old_names_are_gone(command, refused):
    assert "Unrecognized" in refused(command)


def verb_classes(kind, found):
    """The classes of all verbs and of what is nested in them."""
    for one in get_args(kind) or (kind,):
        if is_dataclass(one) and one not in found:
            found.add(one)
            for hint in get_type_hints(one).values():
                verb_classes(hint, found)
    return found


def test_every_option_is_used_by_some_test():
    text = "\n".join(path.read_text() for path in TESTS.rglob("*.py"))
    for verb in verb_classes(Verb, set()):
        for option in fields(verb):
            if option.name in ("what", "flights", "folder", "path", "instruction", "instructions"):
                continue  # positional, or a verb's subcommands
            if is_dataclass(get_type_hints(verb)[option.name]):
                continue  # a group of options
            name = f"--{option.name.replace('_', '-')}"
            assert re.search(rf"{name}\b", text), f"{verb.__name__}: no test uses {name}"


@pytest.mark.long
@pytest.mark.parametrize(
    "command",
    [
        "pvn fly",
        "pvn show flight",
        "pvn evaluate --corpus corpus",
        "pvn figure gallery",
        "pvn demo --port 0",
        "pvn reproduce --out reproduction",
        "pvn train --corpus corpus --out run --preset smoke",
    ],
)
def test_without_a_gpu_every_verb_says_so_in_one_line(command, corpus, refused, monkeypatch):
    if "demo" in command:
        pytest.importorskip("viser")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)  # the demo's would outlast this test
    expected = 'device: got "cuda", but torch sees no CUDA GPU here; use device="cpu"'
    assert expected in refused(f"{command} --device cuda")
    assert not list(Path().rglob("*.safetensors")), "it is said before anything is trained"


def test_help_of_reproduce_names_the_papers_systems_alone(help_text):
    names = [name for name, system in SYSTEMS.items() if system.paper]
    assert f"{{{','.join(names)}}}" in help_text("pvn reproduce").replace(" ", "") and "pvn-plus" not in names
