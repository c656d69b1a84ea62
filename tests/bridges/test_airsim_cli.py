"""`pvn connect airsim` and `pvn serve airsim`, end to end."""

import json
import math
import shlex
from dataclasses import replace

import pytest
import torch

pytest.importorskip("cosysairsim", reason='needs the AirSim client: pip install "pvn-drone[airsim]"')

from pvn.bridges import AirSimField, AirSimOptions
from pvn.bridges.airsim.server import AirSimServer
from pvn.bridges.shared.renderer import CameraRenderer
from pvn.bridges.shared.vehicle import Vehicle
from pvn.cli import main
from pvn.cli.connect import Flight, fly_over
from pvn.evaluation.pilots import Pilot, load_pilot
from pvn.geometry import Camera
from pvn.simulator.interface import SimulatorConfig

pytestmark = pytest.mark.usefixtures("patient_hover")


def run(command):
    main(shlex.split(command)[1:])


def run_refused(command, capsys):
    """The message of a command that ends with an error."""
    with pytest.raises(SystemExit):
        run(command)
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.long
def test_pvn_connect_flies_an_instruction_over_airsim(serve, tmp_path, capsys):
    said = "go to the soldier qwertz shop"
    with serve() as served:
        for _ in range(2):
            run(f'pvn connect airsim "{said}" --port {served.port} --stepped --agent pvn --out {tmp_path}')
    text = capsys.readouterr().out
    assert said in text and "'qwertz' is not a word I know; 'shop' is read as 'stop'" in text
    log, again = (json.loads((tmp_path / f"flight_airsim{run}.json").read_text()) for run in ("", "_run2"))
    assert log["instruction"] == said and log["unknown_words"] == ["qwertz"] and log["read_as"] == {"shop": "stop"}
    assert len(log["poses"]) == len(log["actions"]) + 1 and again["actions"], "no log replaces another"


class Broken:
    """A policy that fails at its third step, for a reason that has nothing to do with the connection."""

    def begin(self, tasks, device):
        return 0

    def act(self, observation, memory):
        return torch.tensor([[2.0, 0.0 / (2 - memory), 0.0]]), memory + 1


class Stop:
    """A policy that stops at once."""

    def begin(self, tasks, device):
        return 0

    def act(self, observation, memory):
        return torch.tensor([[0.0, 0.0, 1.0]]), memory


def connect(served, policy, folder, **options):
    """Fly a policy over a server."""
    pilot = Pilot("test", policy, None, SimulatorConfig(), "test")
    with AirSimField(AirSimOptions(port=served.port, **options)) as field:
        fly_over(field, Flight(instruction=("go on",), out=folder), pilot, "AirSim")


def test_whatever_ends_a_flight_the_drone_hovers_and_the_world_is_not_left_paused(serve, recorded_calls, tmp_path):
    with serve() as served:
        with pytest.raises(ZeroDivisionError):
            connect(served, Broken(), tmp_path, stepped=True)
        assert recorded_calls[-1] == "hover" and not served.host.is_paused
    log = json.loads((tmp_path / "flight_airsim.json").read_text())
    assert len(log["actions"]) == 2 and log["ended"] == "float division by zero"


@pytest.mark.long
@pytest.mark.parametrize(
    ("speed", "stepped", "is_noted"), [(math.inf, False, True), (math.inf, True, False), (4.0, False, False)]
)
def test_a_clock_that_runs_away_is_noted(serve, tmp_path, caplog, speed, stepped, is_noted):
    with serve(speed=speed) as served:
        connect(served, Stop(), tmp_path, stepped=stepped)
    assert ("Connect with --stepped, or serve with --speed 1" in caplog.text) == is_noted


@pytest.mark.long
def test_another_agent_flies_over_airsim_under_its_own_name_with_its_own_camera(serve, tmp_path, monkeypatch, capsys):
    camera, cameras = Camera(horizontal_view=math.radians(80)), []
    pilot = load_pilot("gsmn")
    pilot = replace(pilot, config=replace(pilot.config, camera=camera))

    class RecordingField(AirSimField):
        def __init__(self, *arguments, config, **options):
            cameras.append(config.camera)
            super().__init__(*arguments, config=config, **options)

    monkeypatch.setattr("pvn.evaluation.pilots.load_pilot", lambda name, **options: {"gsmn": pilot}[name])
    monkeypatch.setattr("pvn.bridges.airsim.field.AirSimField", RecordingField)
    with serve() as served:
        run(f'pvn connect airsim "go to the soldier" --agent gsmn --port {served.port} --stepped --out {tmp_path}')
    assert "gsmn over AirSim" in capsys.readouterr().out
    assert cameras == [camera]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ('connect airsim "go on" --port 1 --agent pvn', "Is the simulator running"),
        ("connect airsim", "instruction: got 0, expected one in quotes"),
        ('connect airsim "go on" "go left"', "instruction: got 2, expected one in quotes"),
        ("connect airsim go left", 'got 2 of one word each, expected one in quotes: "go left"'),
        ('connect airsim "go on" --agent stop', "agent: got stop, which reads no instructions"),
        ('connect airsim "go on" --field 3', "--field"),
        ("serve airsim --port 70000", "port: got 70000, expected 0 to 65535"),
        ("serve airsim --speed 0", "speed: got 0.0"),
        ("serve airsim --settings nowhere.json", "settings: cannot read nowhere.json"),
        ("serve airsim --width 0", "image size: got 0 x 144"),
        ("serve airsim --port 0 --host nowhere.invalid", "expected an address of this machine as --host"),
        ("serve airsim --port 0 --host 192.0.2.1", "expected an address of this machine as --host"),
        ("serve airsim --camera-port 0", "--camera-port"),
    ],
)
def test_what_cannot_be_is_refused(command, message, capsys):
    assert message in run_refused(f"pvn {command}", capsys)


def test_a_port_that_is_in_use_is_named(serve, capsys):
    with serve() as served:
        message = run_refused(f"pvn serve airsim --port {served.port}", capsys)
    assert f"cannot listen on 127.0.0.1:{served.port}" in message and "another program uses the port" in message


def test_everything_is_compiled_before_clients_can_connect(monkeypatch):
    events = []

    def record(owner, name):
        usual = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *arguments: events.append(name) or usual(*arguments))

    for owner, name in [(CameraRenderer, "render_scene"), (CameraRenderer, "measure_depth"), (Vehicle, "tick")]:
        record(owner, name)
    monkeypatch.setattr(AirSimServer, "run", lambda server, announce: events.append("run"))
    run("pvn serve airsim --port 0")
    assert sorted(events[:-1]) == ["measure_depth", "render_scene", "tick"] and events[-1] == "run"
