#!/usr/bin/env python
"""Every reader, given files that were changed at random: `make fuzz`, or

    python tests/fuzz.py --seconds 60 --seed 0 --reader corpus agent

What a reader does with a changed file is counted as one of these:

clean    an error (ValueError or OSError) that names the file
same     it reads what the file said before
changed  it reads something else: valid, so nobody can tell
other    another error, or one that does not name the file
hang     it takes over ten seconds

Messages of AirSim's and MAVLink's clients and of the demo's 3D view come from files too, and what is answered counts as
what is read. Files with checksums are also read without them, as earlier versions wrote them. Changes are drawn by
Hypothesis, the same ones for the same seed: bytes flipped, cut out, repeated or put in, and values of JSON replaced by
others.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
import torch
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

from pvn.corpus.lani_import import import_lani
from pvn.corpus.meadow.banks import bundled_banks, read_bank
from pvn.corpus.meadow.generator import make_meadow
from pvn.corpus.natural.own import read_instructions
from pvn.corpus.segments import Corpus
from pvn.corpus.store import pack_segments, read_corpus, write_corpus
from pvn.corpus.vocabulary import Vocabulary
from pvn.evaluation.flights import Flights, read_flights, write_flights
from pvn.geometry import Camera, MapGrid
from pvn.learning.checkpoint import save_agent
from pvn.model.execution import ExecutionConfig, ExecutionModel
from pvn.model.pvn import PVN
from pvn.model.visitation import VisitationConfig, VisitationModel
from pvn.systems import load_agent
from pvn.world.landmarks import LANDMARK_NAMES
from pvn.world.lani import read_layout, read_route, write_layout, write_route

SECONDS_TO_HANG = 10
MORE_MEMORY = 2 << 30
"""Bytes that readers may take beyond what the process has when they begin; asking for more is an error ("other")."""
INPUTS_PER_ROUND = 500
"""Inputs that Hypothesis draws at a time: it draws all of them, even if there is no time left to read them."""
KINDS = ("clean", "same", "changed", "other", "hang")


@dataclass(frozen=True)
class Reader:
    """Something that reads files: how such files are written, and what reading gives, as bytes that can be compared."""

    write: Callable[[Path], list[Path]]
    """Writes valid files into a folder; returns those that are then changed, one at a time."""
    read: Callable[[Path], bytes]
    """Reads the folder."""


@dataclass
class Count:
    """What came of the inputs of one reader."""

    kinds: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    """The first input of each kind that should not be, described."""
    peak_mb: float = 0.0
    """Most memory that the process has had by then."""


# Valid files.


def _meadow() -> Corpus:
    return make_meadow(bundled_banks(), size=40, seed=3)


def _segments_as_bytes(corpus: Corpus) -> bytes:
    parts = {
        f"{split}.{name}": column
        for split, segments in corpus.splits.items()
        for name, column in pack_segments(segments, LANDMARK_NAMES).items()
    }
    return b"".join(name.encode() + column.tobytes() for name, column in sorted(parts.items()))


def _write_corpus(folder: Path) -> list[Path]:
    corpus = _meadow()
    write_corpus(Corpus("meadow", {"dev": corpus["dev"][:3]}), folder / "corpus")
    return sorted((folder / "corpus").iterdir())


def _write_agent(folder: Path) -> list[Path]:
    vocabulary = Vocabulary.from_texts(segment.task.instruction for segment in _meadow()["train"])
    grid, camera = MapGrid(size=32, cell=50 / 16), Camera(width=32, height=18)
    torch.manual_seed(0)
    visitation = VisitationModel(VisitationConfig(num_words=len(vocabulary), camera=camera, grid=grid))
    agent = PVN(visitation, ExecutionModel(ExecutionConfig(grid=grid)), vocabulary, plan_every=4)
    save_agent(agent, folder / "agent.safetensors", {"made": "to be changed"})
    return [folder / "agent.json", folder / "agent.safetensors"]


def _read_agent(folder: Path) -> bytes:
    agent = load_agent(folder / "agent.safetensors")
    weights = b"".join(
        value.numpy().tobytes()
        for network in agent.networks.values()
        for name, value in network.state_dict().items()
        if not name.startswith("heads.")
    )
    return json.dumps([agent.describe(), agent.vocabulary.to_json()], default=str).encode() + weights


def _write_flights(folder: Path) -> list[Path]:
    poses = torch.linspace(0, 40, 60).view(10, 6)
    flights = Flights(poses, torch.ones(7, 3), torch.tensor([1, 2, 4]), torch.tensor([True, False, True]))
    write_flights(folder / "flights.safetensors", flights, torch.arange(32, dtype=torch.uint8))
    return [folder / "flights.safetensors"]


def _read_flights(folder: Path) -> bytes:
    flights, fingerprint = read_flights(folder / "flights.safetensors")
    paths = b"".join(path.tobytes() for path in flights.paths())
    return paths + flights.action.numpy().tobytes() + fingerprint.numpy().tobytes()


def _write_environment(folder: Path) -> list[Path]:
    segment = _meadow()["train"][0]
    write_layout(segment.task.layout, folder / "random_config_1.json")
    write_route(segment.demonstration.path, folder / "random_curve_1.json")
    return [folder / "random_config_1.json", folder / "random_curve_1.json"]


def _read_environment(folder: Path) -> bytes:
    layout, route = read_layout(folder / "random_config_1.json"), read_route(folder / "random_curve_1.json")
    return repr(layout.landmarks).encode() + layout.lake.tobytes() + route.tobytes()


def _write_bank(folder: Path) -> list[Path]:
    content = {
        "author": "me",
        "phrases": [
            {"do": ["pass A left", "goto B"], "say": "go by {A} on your left, then to {B}"},
            {"do": ["fence COLOR"], "say": "stop at {F}"},
        ],
        "references": {"Barrel": ["rusty barrel", "old drum"]},
        "fence": ["{COLOR} fence"],
        "lake": ["lake", "pond"],
    }
    (folder / "mine.json").write_text(json.dumps(content))
    return [folder / "mine.json"]


def _write_own(name: str, text: Callable[[Corpus], str]) -> Callable[[Path], list[Path]]:
    def write(folder: Path) -> list[Path]:
        (folder / name).write_text(text(_meadow()))
        return [folder / name]

    return write


def _read_own(name: str) -> Callable[[Path], bytes]:
    corpus = _meadow()
    return lambda folder: _segments_as_bytes(read_instructions(folder / name, corpus))


def _retold(corpus: Corpus) -> str:
    return json.dumps({segment.id: "fly to the well, quickly" for segment in corpus["train"][:3]})


def _flown(corpus: Corpus) -> str:
    return "field,start,path,text\n7,10 10 0,10 10; 20 10; 20 20,go on and turn left\n7,5 5 90,5 5; 5 20,straight on\n"


def _write_lani(folder: Path) -> list[Path]:
    segment = _meadow()["train"][0]
    path = segment.demonstration.path
    begin, end = (225 + path[index] for index in (0, -1))
    record = {
        "id": "12", "valid": True, "instructions": ["go there ."], "moves": ["FF"], "start_rot": [90.0],
        "start_x": [begin[0]], "start_z": [begin[1]], "end_x": [end[0]], "end_z": [end[1]],
    }  # fmt: skip
    for part in ("configs", "paths"):
        (folder / "configs" / part).mkdir(parents=True)
    write_layout(segment.task.layout, folder / "configs" / "configs" / "random_config_12.json")
    write_route(path, folder / "configs" / "paths" / "random_curve_12.json")
    annotations = folder / "configs" / "train_annotations_6000.json"
    annotations.write_text(json.dumps([record]))
    return [annotations]


# Messages: one in each line of a JSON file, changed before or after they are packed as they go over the wire.

_VECTOR, _YAW_MODE = {"x_val": 1.0, "y_val": 2.0, "z_val": -3.0}, {"is_rate": False, "yaw_or_rate": 30.0}
_POSE = {"position": _VECTOR, "orientation": {"w_val": 1.0, "x_val": 0.0, "y_val": 0.0, "z_val": 0.0}}
_MOVING = {f"{kind}_{what}": _VECTOR for kind in ("linear", "angular") for what in ("velocity", "acceleration")}
_REQUEST = {"camera_name": "0", "image_type": 0, "pixels_as_float": False, "compress": False}
_ON_THE_WAY = [60.0, 0, _YAW_MODE, -1, 1, ""]
AIRSIM_CALLS: list[tuple[str, list[Any]]] = [
    ("enableApiControl", [True, ""]),
    ("armDisarm", [True, ""]),
    ("getMultirotorState", [""]),
    ("takeoff", [20, ""]),
    ("moveByVelocity", [1.0, 0.0, 0.0, 2.0, 0, _YAW_MODE, ""]),
    ("moveByVelocityZ", [1.0, 0.5, -3.0, 2.0, 0, _YAW_MODE, ""]),
    ("moveToPosition", [5.0, 5.0, -4.0, 3.0, *_ON_THE_WAY]),
    ("moveToZ", [-4.0, 1.0, 60.0, _YAW_MODE, -1, 1, ""]),
    ("moveOnPath", [[_VECTOR, _VECTOR], 3.0, *_ON_THE_WAY]),
    ("moveToGPS", [47.64, -122.14, 120.0, 3.0, *_ON_THE_WAY]),
    ("rotateToYaw", [90.0, 60.0, 5.0, ""]),
    ("rotateByYawRate", [20.0, 2.0, ""]),
    ("moveByRollPitchYawZ", [0.1, 0.1, 0.0, -3.0, 2.0, ""]),
    ("moveByRollPitchYawrateThrottle", [0.1, 0.1, 0.2, 0.6, 2.0, ""]),
    ("moveByManual", [1.0, 1.0, -3.0, 2.0, 0, _YAW_MODE, ""]),
    ("simGetImages", [[_REQUEST], "", False]),
    ("simGetImage", ["0", 0, "", False]),
    ("simGetCameraInfo", ["0", "", False]),
    ("simSetCameraPose", ["0", _POSE, "", False]),
    ("simSetCameraFov", ["0", 80.0, "", False]),
    ("simSetVehiclePose", [_POSE, True, ""]),
    ("simSetKinematics", [{**_POSE, **_MOVING}, True, ""]),
    ("simSetWind", [_VECTOR]),
    ("simSpawnObject", ["box", "Barrel", _POSE, _VECTOR, False, False]),
    ("simSetObjectPose", ["box", _POSE, True]),
    ("simSetObjectScale", ["box", _VECTOR]),
    ("simAddVehicle", ["Drone2", "simpleflight", _POSE, ""]),
    ("simListSceneObjects", [".*"]),
    ("simSetSegmentationObjectID", ["box", 7, False]),
    ("simSetDetectionFilterRadius", ["0", 0, 2000.0, "", False]),
    ("simAddDetectionFilterMeshName", ["0", 0, "Barrel*", "", False]),
    ("simTestLineOfSightBetweenPoints", [_VECTOR, _VECTOR]),
    ("simContinueForTime", [0.1]),
    ("getImuData", ["", ""]),
    ("getLidarData", ["", ""]),
    ("simPrintLogMessage", ["a", "b", 0]),
    ("reset", []),
]
_COMMANDS = (21, 22, 176, 192, 300, 400, 511, 512)
MAVLINK_MESSAGES: list[tuple[str, list[Any]]] = [
    *(("command_long", [1, 1, number, 0, 1.0, 6.0, 0.0, 0.0, 0.0, 0.0, 5.0]) for number in _COMMANDS),
    ("set_mode", [1, 1, 4 << 16 | 3 << 24]),
    ("set_position_target_local_ned", [0, 1, 1, 8, 0b010111000111, *[0.0] * 3, 1.0, *[0.0] * 7]),
    ("set_position_target_global_int", [0, 1, 1, 6, 0b110111111000, 1, 1, 1.0, *[0.0] * 8]),
    ("param_request_list", [1, 1]),
    ("mission_count", [1, 1, 1]),
    ("mission_item_int", [1, 1, 0, 6, 16, 0, 1, 0.0, 0.0, 0.0, 0.0, 473977420, 85455940, 5.0]),
    ("mission_request_int", [1, 1, 0]),
    ("mission_set_current", [1, 1, 0]),
    ("heartbeat", [6, 8, 0, 0, 0, 3]),
]


def _write_messages(pack: Callable[[Any], bytes], messages: list[Any]) -> Callable[[Path], list[Path]]:
    def write(folder: Path) -> list[Path]:
        (folder / "messages.json").write_text(json.dumps(messages))
        (folder / "messages.bin").write_bytes(pack(messages))
        return [folder / "messages.json", folder / "messages.bin"]

    return write


def _read_messages(pack: Callable[[Any], bytes], take: Callable[[bytes], list[str]]) -> Callable[[Path], bytes]:
    """Reads messages packed here, and packed before; whatever cannot be packed never arrives."""

    def read(folder: Path) -> bytes:
        try:
            packed = pack(json.loads((folder / "messages.json").read_text()))
        except Exception as error:
            raise ValueError(f"messages.json: {error}") from None
        return "\n".join(take(packed) + take((folder / "messages.bin").read_bytes())).encode(errors="surrogatepass")

    return read


def _airsim() -> Reader:
    import asyncio
    import inspect

    import msgpack

    from pvn.bridges.airsim.api import dispatch
    from pvn.bridges.airsim.host import Host
    from pvn.bridges.airsim.images import CameraRenderer
    from pvn.bridges.airsim.protocol import Limits, ProtocolError, read_requests

    logging.getLogger("pvn.bridges").setLevel(logging.CRITICAL)  # what is refused is told on the server's console
    renderer = CameraRenderer(_meadow()["train"][0].task.layout, is_full=False)

    def pack(calls: Any) -> bytes:
        messages = [[0, number, *call] for number, call in enumerate(calls)]
        return b"".join(msgpack.packb(message, unicode_errors="surrogatepass") for message in messages)

    async def answer(content: bytes) -> list[str]:
        reader, host, answers = asyncio.StreamReader(), Host(renderer), []
        reader.feed_data(content)
        reader.feed_eof()
        try:
            async for request in read_requests(reader, Limits()):
                try:
                    result = dispatch(host, request.method, request.arguments)
                except ValueError as error:
                    result = str(error)
                if inspect.iscoroutine(result):  # a picture or scan, which would take most of the time
                    result.close()
                answers.append(f"{request.message_id} {result if isinstance(result, str) else type(result).__name__}")
                for drone in host.drones.values():
                    drone.vehicle.tick()
                    if not all(map(math.isfinite, (*drone.vehicle.state.position, *drone.vehicle.state.rotation))):
                        raise RuntimeError(f"{request.method} {request.arguments} let the drone's pose be NaN")
        except ProtocolError as error:
            answers.append(f"closed: {error}")
        finally:
            host.close()
        return answers

    return Reader(
        _write_messages(pack, AIRSIM_CALLS), _read_messages(pack, lambda content: asyncio.run(answer(content)))
    )


def _mavlink() -> Reader:
    from pymavlink.dialects.v20 import common as mavlink

    from pvn.bridges.mavlink.autopilot import Autopilot, receive, setpoint
    from pvn.bridges.mavlink.server import MAX_DATAGRAM, parse_datagram
    from pvn.bridges.shared.vehicle import Vehicle

    state = Vehicle().state

    def pack(messages: Any) -> bytes:
        packer = mavlink.MAVLink(None, 250, 190)
        packed = [getattr(mavlink, f"MAVLink_{name}_message")(*values).pack(packer) for name, values in messages]
        return b"".join(packed)

    def answer(content: bytes) -> list[str]:
        autopilot, answers = Autopilot(), []
        for begin in range(0, len(content), MAX_DATAGRAM):
            for message in parse_datagram(content[begin : begin + MAX_DATAGRAM]):
                autopilot, replies = receive(autopilot, message, state)
                answers += [bytes(reply.pack(mavlink.MAVLink(None, 1, 1))).hex() for reply in replies]
                wanted = setpoint(autopilot, state)
                if wanted and not all(map(math.isfinite, (*wanted.velocity, wanted.yaw_rate, wanted.altitude))):
                    raise RuntimeError(f"{message} let the set-point be NaN")
        return [*answers, repr(autopilot)]

    return Reader(_write_messages(pack, MAVLINK_MESSAGES), _read_messages(pack, answer))


def _view() -> Reader:
    import msgspec

    from pvn.app.demo.door import is_accepted

    drag = {
        "type": "SceneNodeDragMessage", "phase": "start", "name": "/drone/body", "instance_index": None,
        "start_position": [1.0, 2.0, 5.0], "start_screen_pos": [0.1, 0.2], "end_position": [1.0, 2.0, 5.0],
        "end_screen_pos": [0.1, 0.2], "button": "left", "modifier": None, "owner": "",
    }  # fmt: skip
    return Reader(
        _write_messages(msgspec.msgpack.encode, drag),  # type: ignore[arg-type]
        _read_messages(msgspec.msgpack.encode, _view_answer(is_accepted)),
    )


def _view_answer(is_accepted: Callable[[bytes], bool]) -> Callable[[bytes], list[str]]:
    def answer(content: bytes) -> list[str]:
        try:
            return [str(is_accepted(content))]
        except ValueError as error:
            raise ValueError(f"messages.bin: {error}") from None

    return answer


def _link() -> Reader:
    from pvn.app.demo.flight_setup import move_landmark, open_link, random_field, segment_setup, write_link

    field = random_field(3)

    def write(folder: Path) -> list[Path]:
        setup = move_landmark(segment_setup(field, 1, "pvn"), 0, 1.5, 2.5).starting_at((10.0, 20.0, 0.5))
        (folder / "link").write_text(write_link(setup, ("go to the gorilla", "turn left")))
        return [folder / "link"]

    def read(folder: Path) -> bytes:
        text = (folder / "link").read_bytes().decode(errors="replace")
        setup, instructions = open_link(text, field, ("pvn-plus", "pvn"), lambda number: field)
        return repr((instructions, setup.layout.landmarks, setup.start, setup.pilot)).encode()

    return Reader(write, read)


def _settings() -> Reader:
    from pvn.bridges.airsim.settings import read_settings

    content = {
        "SettingsVersion": 1.2, "SimMode": "Multirotor", "OriginGeopoint": {"Latitude": 47.6, "Longitude": -122.1},
        "CameraDefaults": {"CaptureSettings": [{"ImageType": 0, "Width": 320, "Height": 180, "FOV_Degrees": 90}]},
        "Vehicles": {
            "Drone1": {
                "VehicleType": "SimpleFlight", "X": 1.0, "Yaw": 90,
                "Cameras": {"down": {"X": 0.1, "Pitch": -90, "CaptureSettings": [{"ImageType": 0, "Width": 64}]}},
                "Sensors": {"Lidar1": {"SensorType": 6, "Enabled": True, "NumberOfChannels": 4}},
            }
        },
    }  # fmt: skip

    def write(folder: Path) -> list[Path]:
        (folder / "settings.json").write_text(json.dumps(content))
        return [folder / "settings.json"]

    return Reader(write, lambda folder: repr(read_settings(folder / "settings.json")).encode())


def _calibration() -> Reader:
    from pvn.bridges.mavlink.calibration import make_resampler, read_calibration

    content = {
        "width": 64, "height": 48, "fx": 50.0, "fy": 50.0, "cx": 31.5, "cy": 23.5,
        "distortion": [0.1, -0.05, 0.001, 0.0], "tilt_degrees": 20.0, "latency_s": 0.1,
    }  # fmt: skip

    def write(folder: Path) -> list[Path]:
        (folder / "camera.json").write_text(json.dumps(content))
        return [folder / "camera.json"]

    def read(folder: Path) -> bytes:
        calibration = read_calibration(folder / "camera.json")
        make_resampler(calibration, Camera(width=32, height=18))
        return repr(calibration).encode()

    return Reader(write, read)


def _checkpoint() -> Reader:
    from pvn.learning.checkpoint import load_training, save_training
    from pvn.learning.descent import model_optimizer
    from pvn.model.instruction import InstructionEncoder
    from pvn.model.mapping import InstructedModel

    def untrained() -> tuple[InstructedModel, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = InstructedModel()  # of a few hundred numbers, where an agent's has a million
        model.instruction, model.heads = InstructionEncoder(9, 4, 4), None
        model.add_module("last", torch.nn.Linear(4, 2))
        return model, model_optimizer(model, "AdamW", 1e-3, 1.0, 0.0)

    def write(folder: Path) -> list[Path]:
        model, optimizer = untrained()
        sum(parameter.sum() for parameter in model.parameters()).backward()  # type: ignore[union-attr]
        optimizer.step()
        save_training(folder / "training.safetensors", model, optimizer, 3)
        return [folder / "training.safetensors"]

    def read(folder: Path) -> bytes:
        model, optimizer = untrained()
        done = load_training(folder / "training.safetensors", model, optimizer)
        averages = [value.numpy().tobytes() for state in optimizer.state.values() for value in state.values()]
        weights = [parameter.detach().numpy().tobytes() for parameter in model.parameters()]
        return b"".join([str(done).encode(), *weights, *averages])

    return Reader(write, read)


READERS: dict[str, Callable[[], Reader]] = {
    "corpus": lambda: Reader(_write_corpus, lambda folder: _segments_as_bytes(read_corpus(folder / "corpus"))),
    "agent": lambda: Reader(_write_agent, _read_agent),
    "flights": lambda: Reader(_write_flights, _read_flights),
    "environment": lambda: Reader(_write_environment, _read_environment),
    "bank": lambda: Reader(_write_bank, lambda folder: repr(read_bank(folder / "mine.json")).encode()),
    "own words": lambda: Reader(_write_own("own.json", _retold), _read_own("own.json")),
    "own flights": lambda: Reader(_write_own("own.csv", _flown), _read_own("own.csv")),
    "airsim": _airsim,
    "mavlink": _mavlink,
    "view": _view,
    "link": _link,
    "settings": _settings,
    "calibration": _calibration,
    "checkpoint": _checkpoint,
    "lani": lambda: Reader(_write_lani, lambda folder: _segments_as_bytes(import_lani(folder).corpus)),
}


# Changes.

ODD_VALUES: list[Any] = [
    None, True, False, 0, -1, 1.5, math.nan, math.inf, 2**31, 2**63, 10**30, 1e308, "", "a", "\x00", "\ud800", "5",
    [], {}, [None], {"a": 1}, ["a"] * 50, [[[[]]]],
]  # fmt: skip


@st.composite
def changed_bytes(draw: st.DrawFn, content: bytes) -> bytes:
    """A file's content with one to three changes of its bytes."""
    changed = bytearray(content)
    for _ in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, max(len(changed) - 1, 0)))
        length = draw(st.integers(1, 16))
        match draw(st.sampled_from(("flip", "cut", "end", "repeat", "insert", "overwrite"))):
            case "flip" if changed:
                changed[begin] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del changed[begin : begin + length]
            case "end":
                del changed[begin:]
            case "repeat":
                changed[begin:begin] = changed[begin : begin + length]
            case "insert":
                changed[begin:begin] = draw(st.binary(min_size=1, max_size=16))
            case "overwrite":
                changed[begin : begin + length] = draw(st.binary(min_size=length, max_size=length))
    return bytes(changed)


def _places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in JSON content."""
    yield path
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        yield from _places(value, (*path, key))


@st.composite
def changed_json(draw: st.DrawFn, content: bytes) -> bytes:
    """JSON with one value replaced or left out, or one key more."""
    whole: Any = [json.loads(content)]
    *path, last = draw(st.sampled_from([place for place in _places(whole) if place]))
    parent = whole
    for key in path:
        parent = parent[key]
    match draw(st.sampled_from(("replace", "leave out", "add", "change"))):
        case "leave out" if path:
            del parent[last]
        case "add" if isinstance(parent[last], dict):
            parent[last][draw(st.sampled_from(("", "new", "id")))] = draw(st.sampled_from(ODD_VALUES))
        case "add" if isinstance(parent[last], list):
            parent[last].append(draw(st.sampled_from(ODD_VALUES)))
        case "change" if type(parent[last]) in (int, float):
            parent[last] *= draw(st.sampled_from((-1, 0, 2, 1.0001, 1e6)))
        case _:
            parent[last] = draw(st.sampled_from(ODD_VALUES))
    return json.dumps(whole[0] if whole else None).encode()


def changes_of(path: Path) -> st.SearchStrategy[bytes]:
    """Changed contents of a file."""
    content = path.read_bytes()
    return changed_bytes(content) | changed_json(content) if path.suffix == ".json" else changed_bytes(content)


# Reading them.


class _HangError(BaseException):
    """Reading took too long; not an Exception, so that no reader catches it."""


@contextmanager
def _time_limit() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise _HangError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS_TO_HANG)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _memory_limit() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else None
    if pages is not None:
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MORE_MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def outcome(reader: Reader, folder: Path, names: list[str], expected: bytes) -> tuple[str, str]:
    """What a reader does with a folder in which one of the files `names` was changed: the kind, and what it said."""
    try:
        with _time_limit():
            found = reader.read(folder)
    except (ValueError, OSError) as error:
        is_named = any(name in str(error) for name in names)
        return "clean" if is_named else "other", f"{type(error).__name__}: {error}"
    except _HangError:
        return "hang", ""
    except Exception as error:
        return "other", f"{type(error).__name__}: {error}"
    return "same" if found == expected else "changed", ""


def fuzz(make_reader: Callable[[], Reader], seed: int, num_inputs: int, seconds: float = math.inf) -> Count:
    """Give a reader changed files, up to a number of inputs or seconds."""
    count, until = Count(), time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        valid = Path(folder) / "valid"
        valid.mkdir()
        reader = make_reader()
        paths = reader.write(valid)
        expected = reader.read(valid)
        strategy = st.one_of([changes_of(path).map(lambda content, path=path: (path, content)) for path in paths])

        def try_one(change: tuple[Path, bytes]) -> None:
            if time.monotonic() > until:
                return
            path, content = change
            original = path.read_bytes()
            path.write_bytes(content)
            try:
                kind, said = outcome(reader, valid, [one.name for one in paths], expected)
            finally:
                path.write_bytes(original)
            count.kinds[kind] += 1
            if kind in ("other", "hang") and kind not in count.examples:
                kept = Path(tempfile.gettempdir()) / f"fuzz-{kind}-{path.name}"
                shutil.copy(path, kept)
                kept.write_bytes(content)
                count.examples[kind] = f"{kept}: {said[:300]}"

        with _memory_limit():
            for begin in range(0, num_inputs, INPUTS_PER_ROUND):
                if time.monotonic() < until:
                    draw = hypothesis.settings(
                        max_examples=min(INPUTS_PER_ROUND, num_inputs - begin),
                        database=None,
                        deadline=None,
                        phases=[Phase.generate],
                        suppress_health_check=list(HealthCheck),
                    )
                    draw(hypothesis.seed(seed * 1_000_003 + begin)(hypothesis.given(strategy)(try_one)))()
    count.peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1024)
    return count


def main() -> int:
    """Read the options, try all readers, and print what came of it; 1 if a reader failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reader", nargs="*", choices=READERS, default=list(READERS), help="by default all")
    parser.add_argument("--seconds", type=float, default=60.0, help="for all readers together")
    parser.add_argument("--inputs", type=int, default=10_000, help="at most, for each reader")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("| reader | inputs | " + " | ".join(KINDS) + " | peak MB |")
    print("| :-- |" + " --: |" * (len(KINDS) + 2))
    has_failed = False
    for name in options.reader:
        count = fuzz(READERS[name], options.seed, options.inputs, options.seconds / len(options.reader))
        figures = (count.kinds.total(), *(count.kinds[kind] for kind in KINDS), round(count.peak_mb))
        print(f"| {name} | " + " | ".join(f"{figure:,}" for figure in figures) + " |", flush=True)
        for kind, example in count.examples.items():
            has_failed = True
            print(f"{kind}: {example}", file=sys.stderr)
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
