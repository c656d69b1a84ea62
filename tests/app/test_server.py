"""The demo's server, its door and its visits, without a browser."""

import gzip
import json
import math
import socket
import sys
import threading
import urllib.error
import urllib.request
import uuid
from types import SimpleNamespace

import msgspec
import pytest
import viser
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from pvn.app.demo.door import INVALID, SOCKETS_PER_VISITOR, TOO_MANY, Door, check_origin, is_accepted
from pvn.app.demo.flight_setup import segment_setup
from pvn.app.demo.server import ENTRANCES, FULL, TAKEN_OVER, DemoConfig, DemoServer, offered_pilots
from pvn.app.demo.visits import Visits
from pvn.cli import main
from pvn.systems import DEFAULT_AGENT, SYSTEMS

VISER = [f"viser-v{viser.__version__}"]


def test_the_shipped_agents_and_the_oracle_can_be_chosen_the_strongest_first():
    names, weak_to_strong = offered_pilots(), list(SYSTEMS)
    assert names[0] == DEFAULT_AGENT and names[-1] == "oracle"
    assert names[:-1] == sorted(names[:-1], key=weak_to_strong.index, reverse=True)


@pytest.mark.parametrize(
    ("host", "given", "is_websocket", "message"),
    [
        ("127.0.0.1", {"Host": "localhost:8080", "Origin": "http://localhost:8080"}, True, ""),
        ("127.0.0.1", {"Host": "localhost:9000", "Origin": "http://localhost:9000"}, True, ""),  # a tunnel
        ("127.0.0.1", {"Host": "[::1]:8080"}, False, ""),
        ("127.0.0.1", {"Host": "localhost:8080", "Origin": "http://localhost:3000"}, True, "Origin: got http://localhost:3000"),
        ("127.0.0.1", {"Host": "localhost:8080", "Origin": "https://evil.example"}, True, "Origin: got https://evil"),
        ("127.0.0.1", {"Host": "localhost:8080", "Origin": "null"}, True, "Origin: got null"),
        ("127.0.0.1", {"Host": "localhost:8080"}, True, "Origin: got none"),
        ("127.0.0.1", {"Host": "evil.example:8080", "Origin": "http://evil.example:8080"}, True, "Host: got evil"),
        ("127.0.0.1", {"Host": "evil.example:8080"}, False, "Host: got evil.example:8080"),
        ("127.0.0.1", {"Host": "192.168.1.5:8080"}, False, "Host: got 192.168.1.5"),
        ("127.0.0.1", {}, False, "Host: got none"),
        ("0.0.0.0", {"Host": "192.168.1.5:8080", "Origin": "http://192.168.1.5:8080"}, True, ""),
        ("0.0.0.0", {"Host": "evil.example", "Origin": "http://evil.example"}, True, "Host: got evil.example"),
    ],
)  # fmt: skip
def test_only_the_demos_own_pages_are_let_in(host, given, is_websocket, message):
    refusal = Door(host).refusal(Headers(**given), is_websocket)
    assert refusal.startswith(message) and bool(refusal) == bool(message)
    assert not refusal or "--allow-origin" in refusal


def test_a_public_demo_is_let_in_under_the_name_that_it_is_given():
    door = Door("127.0.0.1", frozenset({check_origin("https://Demo.Example.org/")}))
    behind_a_proxy = Headers(Host="127.0.0.1:8080", Origin="https://demo.example.org")
    under_its_name = Headers(Host="demo.example.org", Origin="https://demo.example.org")
    assert not door.refusal(behind_a_proxy, True) and not door.refusal(under_its_name, True)
    assert door.refusal(Headers(Host="demo.example.org", Origin="https://other.example.org"), True)
    for wrong in ("demo.example.org", "https://demo.example.org/page", "ftp://demo.example.org", "*"):
        with pytest.raises(ValueError, match="allow-origin: got"):
            check_origin(wrong)


@pytest.mark.long
@pytest.mark.parametrize("path", ["/panel", "/"])
def test_a_websocket_with_a_foreign_origin_or_host_is_refused(demo_server, path):
    port = demo_server.port

    def visit(host, **options):
        """A websocket to the demo by a name that means this computer, as other sites can make theirs do."""
        address = f"ws://{host}:{port}{path}?visitor=0123456789"
        return connect(address, sock=socket.create_connection(("127.0.0.1", port)), subprotocols=VISER, **options)

    own = f"http://127.0.0.1:{port}"
    for host, options in (
        ("127.0.0.1", {"origin": "https://evil.example"}),
        ("evil.example", {"origin": f"http://evil.example:{port}"}),
        ("evil.example", {"origin": own}),
        ("127.0.0.1", {}),
        ("127.0.0.1", {"origin": own, "additional_headers": {"Host": "evil.example"}}),
    ):
        with pytest.raises(InvalidStatus) as refused:
            visit(host, **options)
        assert refused.value.response.status_code == 403, (host, options)
    with visit("127.0.0.1", origin=own) as connection:
        assert connection.subprotocol == VISER[0]


def get(server, path, **headers):
    request = urllib.request.Request(server.url + path, headers=headers)
    return urllib.request.urlopen(request, timeout=120)


@pytest.mark.long
def test_our_page_is_served_around_visers_and_nobody_else_may_frame_it(demo_server):
    page = get(demo_server, "/?field=3&say=go")
    assert page.headers["Content-Security-Policy"] == "frame-ancestors 'self'"
    assert b"<title>PVN: fly a drone by language</title>" in page.read()
    compressed = get(demo_server, "/viewer", **{"Accept-Encoding": "gzip"}).read()
    assert b'<script src="viewer.js">' in gzip.decompress(compressed)
    with pytest.raises(urllib.error.HTTPError, match="304"):
        get(demo_server, "/viewer", **{"If-None-Match": get(demo_server, "/viewer").headers["ETag"]})
    for missing in ("/index.html", "/../server.py", "/%2e%2e/server.py"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(demo_server, missing)
    with pytest.raises(urllib.error.HTTPError, match="403"):
        get(demo_server, "/", Host="evil.example")
    assert get(demo_server, "/icon.svg").headers["Content-Type"].startswith("image/svg+xml")


class Panel:
    """A panel without a browser: remembers the last message of each kind."""

    def __init__(self, server, link="", key=None):
        self.key = key or uuid.uuid4().hex
        address = f"ws://127.0.0.1:{server.port}/panel?visitor={self.key}"
        self.socket = connect(address, origin=f"http://127.0.0.1:{server.port}", max_size=None)
        self.seen = {}
        self.socket.send(json.dumps({"link": link}))

    def wait_for(self, is_there):
        """Read messages until something is among them."""
        while not is_there(self.seen):
            message = json.loads(self.socket.recv(60))
            self.seen[message["kind"]] = message

    def say(self, do, value=None):
        self.socket.send(json.dumps({"do": do, "value": value}))

    def code(self):
        """The code with which the server closes the websocket."""
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                self.socket.recv(60)
        return closed.value.rcvd.code


def has_landed(seen):
    return "step" in seen and seen["flights"]["flights"] and "say=" in seen["command"]["link"]


@pytest.mark.long
def test_a_panel_that_was_closed_finds_its_visit_again_and_a_link_begins_another(demo_server):
    panel = Panel(demo_server)
    panel.wait_for(lambda seen: {"menus", "setup", "layout", "examples", "sees", "command"} <= set(seen))
    assert len(panel.seen["examples"]["examples"]) == 8
    assert panel.seen["sees"]["is_start"] and panel.seen["sees"]["image"].startswith("data:image/jpeg;base64,")
    assert {"noun", "x", "y", "radius"} == set(panel.seen["layout"]["landmarks"][0])
    panel.say("speed", "as fast as possible")
    panel.say("fly", "go to the gorilla")
    panel.wait_for(has_landed)
    link = panel.seen["command"]["link"]
    assert link.endswith("agent=pvn-plus&say=go+to+the+gorilla")
    (flight,) = panel.seen["flights"]["flights"]
    other = Panel(demo_server, link, panel.key)
    other.wait_for(has_landed)
    assert other.seen["flights"]["flights"] == [flight] and other.seen["step"] == panel.seen["step"]
    assert panel.code() == TAKEN_OVER, "a visit is shown in one tab"
    other.socket.close()
    again = Panel(demo_server, link, panel.key)
    again.wait_for(has_landed)
    assert again.seen["flights"]["flights"] == [flight]
    again.socket.close()
    elsewhere = Panel(demo_server, "field=9&agent=gsmn", panel.key)
    elsewhere.wait_for(lambda seen: "setup" in seen and "flights" in seen)
    assert elsewhere.seen["setup"]["field"] == 9 and elsewhere.seen["setup"]["pilot"] == "gsmn"
    assert elsewhere.seen["flights"]["flights"] == []
    elsewhere.socket.close()
    broken = Panel(demo_server, "field=many")
    broken.wait_for(lambda seen: seen.get("warning", {}).get("text"))
    assert "got field=many" in broken.seen["warning"]["text"]
    broken.socket.close()


@pytest.mark.long
def test_a_panel_that_sends_nonsense_is_shown_the_door_and_a_third_is_told_that_it_is_full(demo_server, wait_until):
    wait_until(lambda: demo_server.num_visitors == 0, "that everybody left")
    nonsense = [
        '{"do": "dance"}',
        "[]",
        "{",
        '{"do": "step", "value": "x"}',
        '{"do": "add", "value": "moon"}',
        '{"do": "camera"}',
        '{"do": "pilot", "value": "hal"}',
    ]
    for text in nonsense:
        panel = Panel(demo_server)
        panel.socket.send(text)
        assert panel.code() == INVALID, text
    wait_until(lambda: demo_server.num_visitors == 0, "that they left")
    two = [Panel(demo_server), Panel(demo_server)]
    for panel in two:
        panel.wait_for(lambda seen: "menus" in seen)
    assert Panel(demo_server).code() == FULL
    two[0].socket.close()
    wait_until(lambda: demo_server.num_visitors == 1, "that one left")
    third = Panel(demo_server)
    third.wait_for(lambda seen: "menus" in seen)
    for panel in (two[1], third):
        panel.socket.close()


def view_message(kind="ViewerCameraMessage", **changes):
    """A message of a 3D view, the first one by default."""
    camera = {
        "wxyz": [1.0, 0.0, 0.0, 0.0], "position": [0.0, 0.0, 9.0], "fov": 1.3, "near": 0.1, "far": 1000.0,
        "image_height": 600, "image_width": 900, "look_at": [0.0, 0.0, 0.0], "up_direction": [0.0, 0.0, 1.0],
    }  # fmt: skip
    return msgspec.msgpack.encode({"type": kind, **camera, **changes})


def test_only_messages_that_a_3d_view_sends_are_taken():
    assert is_accepted(view_message())
    for ignored in ("GuiUpdateMessage", "ShareUrlRequest"):  # panels, which are hidden, and a tunnel to the world
        assert not is_accepted(view_message(ignored))
    for nonsense in (
        b"", b"\xc1", "{}", msgspec.msgpack.encode([]), msgspec.msgpack.encode({}), view_message("Dance"),
        view_message(["ViewerCameraMessage"]), view_message(fov="wide"), view_message(position=[0.0, 0.0]),
        view_message(position=[0.0, 0.0, math.nan]), view_message(far=math.inf), view_message(wxyz=None),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="view: got a message that no page sends"):
            is_accepted(nonsense)


def open_view(server, key):
    address, origin = f"ws://127.0.0.1:{server.port}/?visitor={key}", f"http://127.0.0.1:{server.port}"
    return connect(address, origin=origin, subprotocols=VISER, max_size=None)


def close_code(connection):
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            connection.recv(60)
    return closed.value.rcvd.code


@pytest.mark.long
def test_websockets_that_say_nothing_or_nonsense_or_are_too_many_are_closed(demo_server, monkeypatch, wait_until):
    wait_until(lambda: demo_server.num_visitors == 0, "that everybody left")
    panel = Panel(demo_server)
    panel.wait_for(lambda seen: "menus" in seen)
    views = [open_view(demo_server, panel.key) for _ in range(SOCKETS_PER_VISITOR)]
    assert close_code(views.pop()) == TOO_MANY, "the panel is one of them"
    views[0].send(view_message())
    views[0].send(view_message(fov=math.nan))
    assert close_code(views[0]) == INVALID
    monkeypatch.setattr("pvn.app.demo.server.HELLO_S", 0.2)
    monkeypatch.setattr("pvn.app.demo.door.PANEL_S", 0.2)
    assert close_code(open_view(demo_server, uuid.uuid4().hex)) == INVALID, "it has no panel"
    address = f"ws://127.0.0.1:{demo_server.port}/panel?visitor={uuid.uuid4().hex}"
    assert close_code(connect(address, origin=f"http://127.0.0.1:{demo_server.port}")) == INVALID
    for connection in (*views[1:], panel.socket):
        connection.close()


@pytest.mark.long
def test_no_field_is_laid_out_for_those_who_have_left(demo_server, wait_until):
    wait_until(lambda: demo_server.num_visitors == 0, "that everybody left")
    is_busy = threading.Event()
    for _ in range(ENTRANCES):
        demo_server._entrance.submit(is_busy.wait)
    gone, waiting = Panel(demo_server), Panel(demo_server)
    gone.socket.close()
    is_busy.set()
    waiting.wait_for(lambda seen: "menus" in seen)
    assert not demo_server.visits.find(gone.key) and demo_server.visits.find(waiting.key)
    waiting.socket.close()


def test_visitors_are_waited_for_and_then_forgotten(shared, field):
    now = [0.0]
    opened = segment_setup(field, 0), ()
    visits = Visits(2, 60.0, shared, lambda link: opened, clock=lambda: now[0])
    one, two = object(), object()
    first = visits.enter("first-visitor", "", one)
    visits.leave("first-visitor", two)
    assert visits.num_present == 1, "another page of theirs has closed"
    visits.leave("first-visitor", one)
    now[0] = 59.0
    first.page.show_command("", False, "field=3&say=go+home")
    first.page.show_command("", False, "field=3&say=go+home&say=turn+left")  # landed while the page was away
    assert visits.num_present == 0 and visits.enter("first-visitor", "field=3&say=go+home", two) is first
    visits.leave("first-visitor", two)
    now[0] = 120.0
    visits.forget()
    assert visits.find("first-visitor") is None and first.session.state == "closed"
    for key in ("visitor-two", "visitor-three"):
        visits.enter(key, "", object())
    assert visits.enter("visitor-four", "", one) is None
    visits.leave("visitor-two", visits.find("visitor-two").panel)
    assert visits.enter("visitor-four", "", one) is not None, "who is away makes room"
    with pytest.raises(ValueError, match="a key of 3 characters"):
        visits.enter("abc", "", one)
    visits.end_all()
    assert visits.find("visitor-four") is None


@pytest.mark.long
def test_the_page_is_served_while_eight_visitors_fly(visit, wait_until, demo_server):
    visitors = [visit(0.001, demo_server._shared) for _ in range(8)]
    for visitor in visitors:
        visitor.session.fly("go to the gorilla and circle around it")
    wait_until(lambda: all(visitor.panel.steps for visitor in visitors), "the first step of all eight")
    assert get(demo_server, "/").status == 200
    assert all(visitor.session.state == "flying" for visitor in visitors)
    for visitor in visitors:
        visitor.session.close()


def test_a_port_in_use_and_a_missing_package_are_said_in_one_line(capsys, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SystemExit):
            main(["demo", "--port", str(port)])
        assert f"port: got {port} on 127.0.0.1" in capsys.readouterr().err
        with pytest.raises(SystemExit):
            main(["demo", "--public", "--port", str(port)])
        assert f"port: got {port} on 0.0.0.0" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["demo", "--public", "--host", "192.168.1.5"])
    assert "host: got 192.168.1.5 and --public" in capsys.readouterr().err
    for name, message in (("visitors", "at least 1"), ("flights", "at least 1"), ("port", "expected 1 to 65535")):
        with pytest.raises(SystemExit):
            main(["demo", f"--{name}", "-1"])
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["demo", "--allow-origin", "demo.example.org"])
    assert "such as https://demo.example.org" in capsys.readouterr().err
    monkeypatch.delitem(sys.modules, "pvn.app.demo.server")
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(SystemExit):
        main(["demo"])
    assert 'pip install "pvn-drone[app]"' in capsys.readouterr().err


def test_a_public_demo_says_what_it_opens():
    config = DemoConfig(host="0.0.0.0", port=8123, visitors=5, flights=2, allow_origin=("https://demo.example.org",))
    server = DemoServer.__new__(DemoServer)
    server._config, server.door = config, Door(config.host, frozenset(config.allow_origin))
    server._server = SimpleNamespace(get_port=lambda: 8123)
    lines = " ".join(server.opened())
    for part in (
        "everyone who can reach port 8123",
        "https://demo.example.org",
        "no password",
        "5 visitors",
        "2 can fly",
    ):
        assert part in lines
    server.door = Door("127.0.0.1")
    assert server.opened() == []
