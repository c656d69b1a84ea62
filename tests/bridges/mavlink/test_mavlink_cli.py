"""`pvn fly --simulator mavlink://...` and `pvn serve mavlink`, end to end, and what they refuse."""

import json
import os
import re
import shlex
import signal
import sys
import threading
from functools import partial

import pytest

pytest.importorskip("mavsdk", reason='needs MAVSDK: pip install "pvn-drone[mavlink]"')
pytest.importorskip("cv2", reason='needs OpenCV: pip install "pvn-drone[mavlink]"')

from pvn.bridges.mavlink import limits
from pvn.bridges.mavlink.modes import Mode
from pvn.cli import main
from pvn.cli.fly_mavlink import parse_address

CAMERA = "http://127.0.0.1:8088/camera.mjpg"


def run_refused(command, capsys):
    """The message of a command that ends with an error."""
    with pytest.raises(SystemExit):
        main(shlex.split(command)[1:])
    return " ".join(capsys.readouterr().err.split())


def test_the_address_of_a_drone():
    address = parse_address(f"mavlink://udpin:0.0.0.0:14540?camera={CAMERA}&fence=20&speed=2&calibration=lens.json")
    assert address.connection == "udpin://0.0.0.0:14540" and address.camera == CAMERA
    assert address.limits == {"fence": 20.0, "speed": 2.0} and address.calibration.name == "lens.json"
    assert parse_address("mavlink://serial:/dev/ttyUSB0:57600?camera=0").connection == "serial:///dev/ttyUSB0:57600"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--simulator mavlink://0.0.0.0:14540?camera=0", "expected an address such as mavlink://udpin:0.0.0.0:14540"),
        ("--simulator mavlink://udpin:0.0.0.0:14540", "got no camera"),
        ("--simulator 'mavlink://udpin:0.0.0.0:1?camera=0&fence=wide'", "fence: got 'wide', expected a number"),
        ("--simulator 'mavlink://udpin:0.0.0.0:1?camera=0&height=3'", "got 'height', expected camera, calibration"),
        ("--simulator 'mavlink://udpin:0.0.0.0:1?camera=0&fence=-3'", "fence: got -3.0, expected a positive"),
        ("--simulator 'mavlink://udpin:0.0.0.0:1?camera=0' --altitude 40", "altitude: got 40 m, expected 2 to 15 m"),
        ("--simulator 'mavlink://udpin:0.0.0.0:1?camera=0' --stepped", "stepped: got an autopilot"),
        ("--simulator 'mavlink://udpin:0.0.0.0:1?camera=0' --field 3", "field: got 3 with --simulator"),
        ("--arm", "arm: got no autopilot"),
        ("--altitude 4", "altitude: got no autopilot"),
    ],
)
def test_what_cannot_be_flown_is_refused(options, message, capsys):
    assert message in run_refused(f'pvn fly "go to the tree" {options}', capsys)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("mavlink --vehicle Drone1", "vehicle: got 'Drone1' with mavlink; leave out --vehicle"),
        ("airsim --camera-port 0", "camera_port: got 0 with airsim; leave out --camera-port"),
        ("mavlink --port 70000 --camera-port 0", "port: got 70000, expected 0 to 65535"),
        ("mavlink --speed inf", "speed: got inf, expected a finite number"),
        ("mavlink --host 192.0.2.1 --port 0", "expected an address of this machine as --host"),
    ],
)
def test_an_autopilot_that_cannot_be_is_refused(options, message, capsys):
    assert message in run_refused(f"pvn serve {options} --quality fast", capsys)


def test_without_pymavlink_it_says_how_to_install_it(capsys, monkeypatch):
    for name in list(sys.modules):
        if name.startswith(("pymavlink", "pvn.bridges.mavlink.")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pymavlink", None)
    message = run_refused("pvn serve mavlink", capsys)
    assert 'is not installed; install it with: pip install "pvn-drone[mavlink]"' in message


@pytest.mark.long
def test_a_dry_run_and_then_a_flight_from_the_command_line(fly_drone, tmp_path, capsys, monkeypatch):
    # The machine may be busy with other tests; the timeouts that are shipped have tests of their own.
    monkeypatch.setattr(limits, "Limits", partial(limits.Limits, telemetry_timeout_s=30.0, camera_timeout_s=30.0))
    with fly_drone(speed=3.0) as served:
        address = served.address.replace("//", "")
        url = f"mavlink://{address}?camera={served.camera_url}"
        main(["fly", "go to the tree", "--agent", "pvn", "--simulator", url, "--out", str(tmp_path)])
        said = " ".join(capsys.readouterr().out.split())
        assert (
            "dry run: the drone gets no command and no set-point; --arm flies" in said and "what would be sent" in said
        )
        assert served.drone.vehicle.is_landed and served.drone.autopilot.offered is None
        log = json.loads((tmp_path / "flight_mavlink.json").read_text())
        assert log["is_dry_run"] and log["setpoints"] and len(log["poses"]) == len(log["actions"]) + 1

        main(["fly", "go to the tree", "--agent", "pvn", "--simulator", url, "--out", str(tmp_path), "--arm"])
        assert "the drone holds its place" in capsys.readouterr().out
        assert served.drone.autopilot.mode is Mode.HOLD and not served.drone.vehicle.is_landed
        log = json.loads((tmp_path / "flight_mavlink.json").read_text())
        assert not log["is_dry_run"] and len(log["poses"]) == len(log["actions"]) + 1


@pytest.mark.long
def test_pvn_serve_mavlink_announces_itself_is_heard_and_ends_with_ctrl_c(monkeypatch):
    from pymavlink import mavutil

    reading, writing = os.pipe()
    heard = []

    def listen_and_interrupt():
        with open(reading) as printed:
            try:
                port = int(re.search(r"MAVLink on 127.0.0.1:(\d+)", printed.readline())[1])
                link = mavutil.mavlink_connection(f"udpout:127.0.0.1:{port}")
                link.mav.heartbeat_send(6, 8, 0, 0, 0)
                heard.append(link.recv_match(type="HEARTBEAT", blocking=True, timeout=60))
                link.close()
            finally:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    listener = threading.Thread(target=listen_and_interrupt)
    with open(writing, "w") as screen:
        monkeypatch.setattr(sys, "stdout", screen)
        listener.start()
        main("serve mavlink --field 3 --port 0 --camera-port 0 --quality fast".split())
    listener.join()
    assert heard[0].get_srcSystem() == 1
