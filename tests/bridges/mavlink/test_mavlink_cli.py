"""`pvn connect mavlink` and `pvn serve mavlink`, end to end, and what they refuse."""

import json
import os
import re
import shlex
import signal
import sys
import threading

import pytest

pytest.importorskip("mavsdk", reason='needs MAVSDK: pip install "pvn-drone[mavlink]"')
pytest.importorskip("cv2", reason='needs OpenCV: pip install "pvn-drone[mavlink]"')

from pvn.bridges.mavlink.modes import Mode
from pvn.cli import main


def run_refused(command, capsys):
    """The message of a command that ends with an error."""
    with pytest.raises(SystemExit):
        main(shlex.split(command)[1:])
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ('connect mavlink "go to the tree"', "--camera"),
        ('connect mavlink "go to the tree" --camera . --fence wide', "fence"),
        ('connect mavlink "go to the tree" --camera . --fence -3', "fence: got -3.0, expected a positive"),
        ('connect mavlink "go to the tree" --camera . --altitude 40', "altitude: got 40 m, expected 2 to 15 m"),
        ('connect mavlink "go to the tree" --camera . --stepped', "--stepped"),
        ('connect mavlink "go to the tree" --camera .', "got the folder . without a picture"),
        ("serve mavlink --vehicle Drone1", "--vehicle"),
        ("serve mavlink --port 70000 --camera-port 0", "port: got 70000, expected 0 to 65535"),
        ("serve mavlink --speed inf", "speed: got inf, expected a finite number"),
        ("serve mavlink --host 192.0.2.1 --port 0", "expected an address of this machine as --host"),
    ],
)
def test_what_cannot_be_is_refused(command, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in run_refused(f"pvn {command}", capsys)


@pytest.mark.long
def test_a_dry_run_and_then_a_flight_from_the_command_line(fly_drone, tmp_path, capsys):
    with fly_drone(speed=3.0) as served:
        # The machine may be busy with other tests; the timeouts that are shipped have tests of their own.
        command = ["connect", "mavlink", "go to the tree", "--agent", "pvn", "--out", str(tmp_path)]
        command += ["--address", served.address, "--camera", served.camera_url]
        command += ["--telemetry-timeout-s", "30", "--camera-timeout-s", "30", "--fence", "30"]
        main(command)
        said = " ".join(capsys.readouterr().out.split())
        assert "dry run: the drone gets no command and no set-point; --arm flies" in said
        assert "what would be sent" in said and "limits: 30 m around the start" in said
        assert served.drone.vehicle.is_landed and served.drone.autopilot.offered is None
        log = json.loads((tmp_path / "flight_mavlink.json").read_text())
        assert log["is_dry_run"] and log["setpoints"] and len(log["poses"]) == len(log["actions"]) + 1

        main([*command, "--arm", "--altitude", "4"])
        assert "asked to hold its place" in capsys.readouterr().out
        assert served.drone.autopilot.mode is Mode.HOLD and not served.drone.vehicle.is_landed
        log = json.loads((tmp_path / "flight_mavlink_run2.json").read_text())
        assert not log["is_dry_run"] and len(log["poses"]) == len(log["actions"]) + 1
        assert abs(log["poses"][0][2] - 4) < 0.5


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
