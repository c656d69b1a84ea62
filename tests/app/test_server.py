"""The demo's server and its pages, without a browser to look at them."""

import socket
import sys
import time
import urllib.request
from types import SimpleNamespace

import numpy as np
import pytest

from pvn.app.demo.flight_setup import change_instruction, segment_setup
from pvn.cli import main
from pvn.viz.meshes import landmark_mesh
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Landmark, Layout

pytest.importorskip("viser", reason='no viser here: pip install "pvn-drone[app]"')
from pvn.app.demo.page import Page
from pvn.app.demo.server import DemoConfig, DemoServer, LocalServer, offered_pilots


class Client:
    """What a page knows of a browser; widgets and scene are those of a server that nobody visits."""

    def __init__(self, server):
        self.gui, self.scene, self.atomic = server.gui, server.scene, server.atomic
        self.camera = SimpleNamespace()


@pytest.fixture(scope="module")
def page():
    server = LocalServer("127.0.0.1", 0, verbose=False)
    yield Page(Client(server), offered_pilots(), has_corpus=False)
    server.stop()


def test_the_shipped_agents_and_the_oracle_can_be_chosen_the_strongest_first():
    assert offered_pilots() == ["pvn-plus", "pvn", "gsmn", "chaplot", "oracle"]


@pytest.mark.long
def test_the_menus_show_who_flies_what_and_are_disabled_during_a_flight(page, field):
    for index, pilot in ((1, "gsmn"), (2, "oracle"), (0, "pvn-plus")):
        page.show_setup(segment_setup(field, index, pilot))
        assert page._pilot.value == pilot and page._segment.value.startswith(f"{index + 1}. ")
    page._pilot.value, page._segment.value = "chaplot", page._segment.options[3]
    page.show_menus(segment_setup(field, 1, "pvn-plus"))
    assert page._pilot.value == "pvn-plus" and page._segment.value.startswith("2. ")
    for state in ("flying", "replaying", "flying", "choosing"):
        page.show_state(state, 2)
        assert page._pilot.disabled == page._segment.disabled == (state == "flying")


@pytest.mark.long
def test_a_demonstration_and_its_goal_are_shown_only_where_there_is_one(page, field):
    setup = segment_setup(field, 0)
    lines = page.field_view._lines
    page.show_setup(setup)
    x, y = setup.demonstrated[-1]
    assert np.allclose(lines["/goal"].points[..., :2].mean((0, 1)), (x, y), atol=0.1)
    for instruction, is_shown in (("go home", False), (setup.instruction, True)):
        page.show_setup(change_instruction(setup, instruction))
        assert [lines[name].visible for name in ("/demonstration", "/goal", "/path_end")] == [is_shown] * 3
        assert lines["/start"].visible


def test_names_hang_a_quarter_of_a_metre_above_landmarks_of_any_size(page):
    kind = LANDMARK_CLASSES["Windmill"]
    landmarks = [
        Landmark("Windmill", 10.0 + 25 * place, 25.0, kind.radius * scale) for place, scale in enumerate((0.5, 2))
    ]
    page.field_view.show_field(Layout(tuple(landmarks)))
    for landmark, label in zip(landmarks, page.field_view._labels, strict=True):
        top = landmark_mesh(landmark).vertices[:, 2].max()
        assert label.position[2] == pytest.approx(top + 0.25)  # viser scales the mesh of a node, but not its children


@pytest.mark.long
def test_the_page_is_served_while_eight_visitors_fly(visit, wait_until):
    with DemoServer(DemoConfig(port=0, field=3)) as server:
        visitors = [visit(0.001, server._shared) for _ in range(8)]
        for visitor in visitors:
            visitor.session.fly("go to the gorilla and circle around it")
        wait_until(lambda: all(visitor.page.steps for visitor in visitors), "the first step of all eight")
        seconds = []
        for _ in range(20):
            begin = time.perf_counter()
            with urllib.request.urlopen(server.url, timeout=120) as response:
                assert b"<html" in response.read()
            seconds.append(time.perf_counter() - begin)
        assert all(visitor.session.state == "flying" for visitor in visitors)
        assert server._server.request_share_url() is None, "no visitor opens a tunnel to the world"
        for visitor in visitors:
            visitor.session.close()
    sys.stdout.write(f"page served in {1e3 * np.median(seconds):.0f} ms, at most {1e3 * max(seconds):.0f} ms\n")


def test_a_port_in_use_and_a_missing_package_are_said_in_one_line(capsys, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SystemExit):
            main(["demo", "--port", str(port)])
    assert f"port: got {port} on 127.0.0.1" in capsys.readouterr().err
    for name, message in (("visitors", "at least 1"), ("port", "expected 1 to 65535")):
        with pytest.raises(SystemExit):
            main(["demo", f"--{name}", "-1"])
        assert message in capsys.readouterr().err
    for name in ("server", "page", "scene"):
        monkeypatch.delitem(sys.modules, f"pvn.app.demo.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(SystemExit):
        main(["demo"])
    assert 'pip install "pvn-drone[app]"' in capsys.readouterr().err
