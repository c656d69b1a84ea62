"""`pvn fly --simulator airsim://...` and `pvn serve airsim`, end to end."""

import json
import math
import shlex
from dataclasses import replace

import pytest
import torch

pytest.importorskip("cosysairsim", reason='needs the AirSim client: pip install "pvn-drone[airsim]"')

from pvn.bridges.airsim.field import AirSimField
from pvn.bridges.shared.renderer import CameraRenderer
from pvn.bridges.shared.vehicle import Vehicle
from pvn.cli import main
from pvn.cli.fly_airsim import fly_over_airsim
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
def test_pvn_fly_flies_an_instruction_over_airsim(serve, tmp_path, capsys):
    with serve() as served:
        said = "go to the soldier qwertz shop"
        run(f'pvn fly "{said}" --simulator airsim://127.0.0.1:{served.port} --stepped --out {tmp_path}')
    text = capsys.readouterr().out
    assert said in text and "'qwertz' is not a word I know; 'shop' is read as 'stop'" in text
    log = json.loads((tmp_path / "flight_airsim.json").read_text())
    assert (
        log["instruction"] == said
        and log["unknown_words"] == ["qwertz"]
        and log["read_as"] == {"shop": "stop"}
        and len(log["poses"]) == len(log["actions"]) + 1
    )


class Broken:
    """A policy that fails at its third step, for a reason that has nothing to do with the connection."""

    def begin(self, tasks, device):
        return 0

    def act(self, observation, memory):
        return torch.tensor([[2.0, 0.0 / (2 - memory), 0.0]]), memory + 1


def test_whatever_ends_a_flight_the_drone_hovers_and_the_world_is_not_left_paused(serve, recorded_calls, tmp_path):
    pilot = Pilot("broken", Broken(), None, SimulatorConfig(), "broken")
    with serve() as served:
        with pytest.raises(ZeroDivisionError):
            fly_over_airsim(f"airsim://127.0.0.1:{served.port}", ["go on"], pilot, tmp_path, is_stepped=True)
        assert recorded_calls[-1] == "hover" and not served.host.is_paused
    assert len(json.loads((tmp_path / "flight_airsim.json").read_text())["actions"]) == 2


class Stop:
    """A policy that stops at once."""

    def begin(self, tasks, device):
        return 0

    def act(self, observation, memory):
        return torch.tensor([[0.0, 0.0, 1.0]]), memory


@pytest.mark.long
@pytest.mark.parametrize(
    ("speed", "is_stepped", "is_noted"), [(math.inf, False, True), (math.inf, True, False), (4.0, False, False)]
)
def test_a_clock_that_runs_away_is_noted(serve, tmp_path, capsys, speed, is_stepped, is_noted):
    pilot = Pilot("stop", Stop(), None, SimulatorConfig(), "stop")
    with serve(speed=speed) as served:
        fly_over_airsim(f"airsim://127.0.0.1:{served.port}", ["go on"], pilot, tmp_path, is_stepped=is_stepped)
    assert ("Fly with --stepped, or serve with --speed 1" in capsys.readouterr().out) == is_noted


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
        url = f"airsim://127.0.0.1:{served.port}"
        run(f'pvn fly "go to the soldier" --agent gsmn --simulator {url} --stepped --out {tmp_path}')
    assert f"gsmn at {url}" in capsys.readouterr().out
    assert cameras == [camera]


def test_a_missing_server_is_reported(capsys):
    assert "Is the simulator running" in run_refused('pvn fly "go on" --simulator airsim://127.0.0.1:1', capsys)


def test_a_port_that_is_in_use_is_named(serve, capsys):
    with serve() as served:
        message = run_refused(f"pvn serve airsim --port {served.port}", capsys)
    assert f"cannot listen on 127.0.0.1:{served.port}" in message and "another AirSim" in message


@pytest.mark.parametrize("address", ["nowhere.invalid", "192.0.2.1"])
def test_an_address_that_is_not_of_this_machine_is_refused(address, capsys):
    message = run_refused(f"pvn serve airsim --port 0 --host {address}", capsys)
    assert "expected an address of this machine as --host" in message and "another AirSim" not in message


def test_everything_is_compiled_before_clients_can_connect(monkeypatch):
    events = []

    def record(owner, name):
        usual = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *arguments: events.append(name) or usual(*arguments))

    async def serve(*arguments):
        events.append("serve")

    for owner, name in [(CameraRenderer, "render_scene"), (CameraRenderer, "measure_depth"), (Vehicle, "tick")]:
        record(owner, name)
    monkeypatch.setattr("pvn.bridges.airsim.server.serve", serve)
    run("pvn serve airsim --port 0")
    assert sorted(events[:-1]) == ["measure_depth", "render_scene", "tick"] and events[-1] == "serve"
