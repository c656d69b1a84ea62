"""The command line: every verb, and help at once."""

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from matplotlib.image import imread
from test_lani_import import RECORD, numbered, write_drif

from pvn.cli import main
from pvn.evaluation.flights import Flights, read_flights
from pvn.learning.checkpoint import write_tensors


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(command):
    main(shlex.split(command)[1:])


def test_help_comes_in_under_a_second():
    begin = time.perf_counter()
    ran = subprocess.run([sys.executable, "-m", "pvn.cli", "--help"], capture_output=True, text=True, check=True)
    assert time.perf_counter() - begin < 1.0
    assert "fly" in ran.stdout and "bench" in ran.stdout


def test_help_imports_nothing_heavy():
    program = "import sys, pvn.cli; print([m for m in ('torch', 'numba', 'matplotlib') if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def readers_folder(tmp_path_factory):
    """One folder for several commands, as for a person who types them one after the other."""
    return tmp_path_factory.mktemp("reader")


@pytest.mark.parametrize(
    ("options", "count"),
    [("", 5), *((f"--segment 2 --pilot {pilot}", 1) for pilot in ("gsmn", "chaplot", "oracle", "stop", "average"))],
)
def test_fly_draws_every_flight_and_says_where(options, count, capsys):
    run(f"pvn fly --seed 4 {options} --out out")
    pictures = sorted(Path("out").glob("*.png"))
    assert len(pictures) == count
    printed = capsys.readouterr().out
    assert all(str(picture) in printed for picture in pictures)
    assert imread(pictures[0]).shape[0] > 500


def test_an_instruction_with_strange_words_is_flown_and_the_words_are_named(capsys):
    run('pvn fly "fly to the zyzzyva qwertz and stop" --seed 5 --out out')
    printed = capsys.readouterr().out
    assert "never read, and will not heed: zyzzyva, qwertz" in printed
    assert "flight_seed5_1.png" in printed and "goal" not in printed


def test_show_field_saves_an_environment_file_that_can_be_shown_again():
    run("pvn show field --seed 2 --save random_config_2.json --out a.png")
    run("pvn show field --seed 2 --file random_config_2.json --out b.png")
    assert Path("a.png").read_bytes()[:4] == b"\x89PNG"
    assert (imread("a.png") == imread("b.png")).all(), "the same field, the same flight"


def test_bench_simulator_prints_one_json_object(capfd):
    run("pvn bench simulator --json --max-batch 4 --seconds 0.05")
    report = json.loads(capfd.readouterr().out)
    assert report["cpu"]["fast_fps"] > report["cpu"]["full_fps"] > 10
    assert [row["batch"] for row in report["cpu"]["growth"]] == [1, 4]
    assert report["cpu"]["first_frame_mb"] < 600


def test_bench_agent_tells_where_the_time_goes(capsys):
    run("pvn bench agent --json")
    report = json.loads(capsys.readouterr().out)
    policy, learning = report["policy"], report["learning"]
    assert policy["planning_step_ms"] > policy["mapping_step_ms"] > policy["stage_2_ms"]
    assert 0.5 < sum(learning["parts_ms"].values()) / learning["step_launched_ms"] < 1.5


def test_evaluate_flies_once_prints_intervals_and_goes_on_where_it_was_cut(readers_folder, monkeypatch, capsys):
    monkeypatch.chdir(readers_folder)
    run("pvn corpus make --size 60 --out sixty")
    capsys.readouterr()
    run("pvn evaluate oracle stop average --corpus sixty --split dev --out sixty_results --json")
    first = capsys.readouterr().out
    oracle, stop, average = json.loads(first)
    assert [row["system"] for row in (oracle, stop, average)] == ["oracle", "stop", "average"]
    assert oracle["sr"] == {"value": 100.0, "low": 100.0, "high": 100.0} and oracle["split"] == "dev"
    assert stop["sr"]["value"] < 40 and stop["steps"]["value"] == 1
    assert average["sr"]["low"] <= average["sr"]["value"] <= average["sr"]["high"]
    # The file of flights, cut as if the run had been killed after some of them, is filled up again, bit for bit.
    path = Path("sixty_results/average_dev.safetensors")
    whole = path.read_bytes()
    flights, mark = read_flights(path)
    steps = int(flights.num_steps[:3].sum())
    part = Flights(
        flights.pose_world[: steps + 3], flights.action[:steps], flights.num_steps[:3], flights.has_stopped[:3]
    )
    write_tensors(path, {**vars(part), "fingerprint": mark})
    run("pvn evaluate oracle stop average --corpus sixty --split dev --out sixty_results --json")
    assert capsys.readouterr().out == first and path.read_bytes() == whole


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("pvn evaluate pnv --corpus sixty", "did you mean pvn?"),
        ("pvn evaluate pvn --corpus sixty --split tset", "did you mean test?"),
        ("pvn evaluate pvn --corpus nowhere", "nowhere"),
        ("pvn evaluate pvn --corpus sixty --limit 0", "expected at least 1"),
        ("pvn evaluate stop --corpus sixty --split dev --out sixty_results --device cpu --limit 3", ""),
    ],
)
def test_evaluate_says_what_is_wrong(command, message, readers_folder, monkeypatch, capsys):
    monkeypatch.chdir(readers_folder)
    if message:
        with pytest.raises(SystemExit):
            run(command)
        assert message in capsys.readouterr().err
    else:
        run(command)
        Path("sixty_results/stop_dev_3.safetensors").rename("sixty_results/oracle_dev_3.safetensors")
        with pytest.raises(SystemExit):
            run(command.replace("stop", "oracle"))
        assert "flights of another system" in capsys.readouterr().err


def test_bench_oracle_prints_figures_beside_the_papers(capsys):
    run("pvn bench oracle --segments 20 --json")
    report = json.loads(capsys.readouterr().out)
    assert report["success_percent"] == 100 and 0.5 < report["mean_distance"] < 2


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("pvn show catalogue --names Aple", "did you mean Apple"),
        ("pvn show field --file nowhere.json", "no file nowhere.json"),
        ("pvn bench oracle --segments 0", "segments: got 0"),
        ("pvn bench simulator --max-batch 0", "max_batch: got 0"),
        ("pvn bench simulator --seconds 0", "seconds: got 0"),
        ("pvn show catalogue --out sheet", "expected a name that ends in .png"),
        ("pvn fly --seed -1", "seed: got -1"),
        ('pvn fly "  ..."', "instruction: got no words"),
        (f'pvn fly "{"go " * 500}"', "got 500 words, expected at most 100; say it in fewer"),
        ('pvn fly "go home" --pilot stop', "the others do not read instructions"),
        ("pvn fly --weights nowhere.safetensors", "no file nowhere.json"),
        ("pvn train --corpus nowhere --out run", "no corpus in nowhere"),
        ("pvn show field --file .", "no file ."),
        ("pvn corpus make --out .", "exists already"),
        ("pvn corpus make --size 5 --out c", "size: got 5, expected at least 20"),
        ("pvn corpus make --bank none.json --out c", "no bank file none.json"),
        ("pvn corpus stats nowhere", "no corpus in nowhere"),
        ("pvn corpus make --processes -1 --out c", "processes: got -1"),
        ("pvn corpus make --bank a.json --bank b.json --out c", "no bank file a.json"),
        ("pvn corpus import-lani nowhere --out c", "nowhere"),
    ],
)
def test_what_a_user_can_mend_is_said_in_one_line(command, message, capsys):
    with pytest.raises(SystemExit) as error:
        run(command)
    assert error.value.code == 2
    printed = capsys.readouterr().err
    assert message in printed and "Traceback" not in printed


@pytest.mark.parametrize(
    "command",
    [
        "pvn fly",
        "pvn evaluate pvn --corpus made",
        "pvn figure gallery",
        "pvn bench agent",
        "pvn demo --port 0",
        "pvn reproduce --out reproduction",
    ],
)
def test_without_a_gpu_every_verb_says_so_in_one_line(command, monkeypatch, capsys):
    if "demo" in command:
        pytest.importorskip("viser")
    if "made" in command:
        run("pvn corpus make --size 20 --out made --processes 1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)  # the demo's would outlast this test
    with pytest.raises(SystemExit) as error:
        run(f"{command} --device cuda")
    assert error.value.code == 2
    assert 'device: got "cuda", but torch sees no CUDA GPU here; use device="cpu"' in capsys.readouterr().err


def test_a_corpus_is_made_measured_and_drawn(capsys):
    run("pvn corpus make --size 60 --seed 3 --out made --processes 1")
    assert "60 segments (42 train, 9 dev, 9 test)" in capsys.readouterr().out
    run("pvn corpus stats made --json")
    assert json.loads(capsys.readouterr().out)["segments"] == 60
    run("pvn corpus show made --count 4 --out sheet.png")
    run("pvn corpus show made --segment 3-0 --out one.png")
    printed = capsys.readouterr().out
    assert printed.count("picture: ") == 2 and "3-0: " in printed
    assert imread("sheet.png").shape[0] > 800 and imread("one.png").shape[1] > 800


def test_an_import_says_what_was_not_used_and_why(tmp_path, capsys):
    write_drif(tmp_path / "LANI", train=[RECORD, numbered("13")])
    run("pvn corpus import-lani LANI --out lani")
    printed = capsys.readouterr().out
    assert "not used: " in printed and "environment 13" in printed and "random_config_13.json" in printed
    assert "2 segments (2 train), 1 not used" in printed
    run("pvn corpus show lani --segment 12-1 --out segment.png")
    assert "turn left and stop by the lake" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["pvn fly --pilot eagle", "pvn show", "pvn flyy", "pvn fly --sed 3"])
def test_a_wrong_command_line_is_refused_with_a_hint(command, capsys):
    with pytest.raises(SystemExit) as error:
        run(command)
    assert error.value.code == 2
    assert capsys.readouterr().err
