"""The demo in a real browser: headless Chromium types, flies, slides, drags and reloads, at a desk and on a phone.

Nothing here is expected after a fixed time: a software renderer shares the cores with the flights, and with whatever
else runs on the machine.
"""

import functools
import io
import shutil
from itertools import combinations

import numpy as np
import pytest
from PIL import Image

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        CHROMIUM is None or DRIVER is None, reason="no Chromium here: apt-get install chromium chromium-driver"
    ),
]
pytest.importorskip("viser", reason='no viser here: pip install "pvn-drone[app]"')
webdriver = pytest.importorskip("selenium.webdriver", reason="no selenium here: pip install selenium")
from selenium.common.exceptions import TimeoutException, WebDriverException  # noqa: E402
from selenium.webdriver.common.actions.action_builder import ActionBuilder  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from viser.transforms import SO3  # noqa: E402

from pvn.world.shapes import solid_extent  # noqa: E402

SCALE = 0.5
"""Pixels that are drawn for each pixel of the page, across and down: a renderer in software has to save work."""
SCRIPT_LIMIT_S = 120.0
"""A page that is being drawn in software on a busy machine may take most of a minute to answer."""


@pytest.fixture(scope="module")
def server(demo_server):
    return demo_server


def open_browser(width, height, scale, phone=False):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (
        "--headless=new", "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
        "--disable-gpu-rasterization", "--disable-gpu-compositing",  # half the work where there is no GPU
        "--disable-dev-shm-usage", f"--window-size={width},{height}", f"--force-device-scale-factor={scale}",
    ):  # fmt: skip
        options.add_argument(flag)
    if phone:
        metrics = {"width": width, "height": height, "pixelRatio": scale, "touch": True}
        options.add_experimental_option("mobileEmulation", {"deviceMetrics": metrics})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_script_timeout(SCRIPT_LIMIT_S)
    return driver


@pytest.fixture(scope="module")
def browser():
    driver = open_browser(1000, 640, SCALE)
    yield driver
    driver.quit()


class Guest:
    """Someone who has the page in a tab. Only the tab in front is drawn, which is most of the work of a browser."""

    def __init__(self, browser, server, wait_until, link=""):
        self.browser, self.server = browser, server
        # Every question to the browser takes time from what is waited for.
        self.wait_until = functools.partial(wait_until, every=0.2)
        browser.switch_to.new_window("tab")
        self.tab = browser.current_window_handle
        browser.get(f"{server.url}/{link}")

    @property
    def driver(self):
        """The browser, with this guest's tab in front."""
        if self.browser.current_window_handle != self.tab:
            self.browser.switch_to.window(self.tab)
        return self.browser

    def leave(self):
        self.driver.close()
        self.browser.switch_to.window(self.browser.window_handles[0])

    def patiently(self, ask):
        """The answer of a browser that is too busy to answer at once."""

        def attempt():
            try:
                return [ask()]
            except TimeoutException:  # chromedriver itself gives up after 10 s, whatever it is told
                return None

        (answer,) = self.wait_until(attempt, "an answer from the browser")
        return answer

    def ask(self, script, *arguments):
        """The value of an expression on the page."""
        return self.patiently(lambda: self.driver.execute_script(f"return {script}", *arguments))

    def text(self, name):
        """The text of an element by its id."""
        return self.ask("document.getElementById(arguments[0]).innerText", name)

    def wait_for(self, script, what):
        self.wait_until(lambda: self.ask(script), what)

    def wait_for_view(self):
        self.wait_for("document.body.classList.contains('ready')", "the field in 3D")

    @property
    def session(self):
        key = self.ask("sessionStorage.getItem('pvn-visitor')")
        return self.server.visits.find(key).session

    @property
    def client(self):
        """Viser's handle of this guest's 3D view."""
        key = self.ask("sessionStorage.getItem('pvn-visitor')")
        return self.server.visits.find(key).page._view.client

    def view_has_names(self):
        """Whether the field in 3D names its landmarks."""
        key = self.ask("sessionStorage.getItem('pvn-visitor')")
        return self.server.visits.find(key).page._view._landmarks[0][2].visible

    def click(self, name):
        """Click on an element by its id, as soon as it is there and takes clicks."""

        def attempt():
            try:
                self.driver.find_element(By.ID, name).click()
            except WebDriverException:  # covered, moving or replaced: the page is still being arranged
                return False
            return True

        self.wait_until(attempt, f"a click on {name!r}")

    def type(self, *keys):
        """Type into the box."""
        self.driver.find_element(By.ID, "instruction").send_keys(*keys)

    def fly(self, text):
        """Type an instruction, press Enter, and wait until it has landed; the outcome in words."""
        count = self.ask("document.querySelectorAll('#flights li').length")
        self.type(Keys.CONTROL, "a")
        self.type(text, Keys.ENTER)
        self.wait_for(f"document.querySelectorAll('#flights li').length > {count}", f"the end of {text!r}")
        return self.text("status")

    def on_screen(self, point):
        """Where on the page a point (3,) of the field, field frame, is seen."""
        camera, view = self.client.camera, self.driver.find_element(By.ID, "viewer").rect
        u, v = pixel(camera, point)
        scale = view["width"] / camera.image_width  # a browser that draws in software draws fewer pixels
        return int(view["x"] + u * scale), int(view["y"] + v * scale)

    def drag(self, start, end):
        """Drag what is at a place of the screen to another one."""
        builder = ActionBuilder(self.driver)
        middle = ((start[0] + end[0]) // 2, (start[1] + end[1]) // 2)
        for step, (u, v) in enumerate((start, middle, end)):
            builder.pointer_action.move_to_location(u, v)
            builder.pointer_action.pause(0.4)
            if step == 0:
                builder.pointer_action.pointer_down()
        builder.pointer_action.pause(0.4)
        builder.pointer_action.pointer_up()
        builder.perform()

    def picture(self):
        """A screenshot (H, W, 3), in the pixels of the page."""
        content = self.patiently(self.driver.get_screenshot_as_png)
        picture = Image.open(io.BytesIO(content)).convert("RGB")
        scale = self.ask("devicePixelRatio")
        return np.asarray(picture.resize((round(picture.width / scale), round(picture.height / scale)))).astype(int)

    def wait_for_colour(self, point, is_right, what):
        """Wait until the field is drawn so that a point of it, field frame, has the right colour."""

        def attempt():
            u, v = self.on_screen(point)
            return is_right(*self.picture()[v - 1 : v + 2, u - 1 : u + 2].reshape(-1, 3).mean(0))

        self.wait_until(attempt, what)


@pytest.fixture(scope="module")
def invite(browser, server, wait_until):
    return lambda link="": Guest(browser, server, wait_until, link)


@pytest.fixture(scope="module")
def one(invite):
    """The first guest, who does one thing after another."""
    guest = invite()
    guest.wait_for("document.querySelectorAll('#examples button').length == 8", "the panel")
    yield guest
    guest.leave()


def pixel(camera, point):
    """Where (u, v) a camera handle of viser's sees a point (3,), field frame."""
    x, y, z = SO3(camera.wxyz).inverse() @ (np.array(point) - camera.position)
    focal = camera.image_height / 2 / np.tan(camera.fov / 2)
    return camera.image_width / 2 + focal * x / z, camera.image_height / 2 + focal * y / z


def test_the_tab_has_our_name_and_what_the_drone_sees_is_there_from_the_start(one):
    assert one.driver.title == "PVN: fly a drone by language"
    assert one.ask("document.querySelector('link[rel=icon]').href").endswith("/icon.svg")
    assert (
        one.ask("document.getElementById('instruction').value") == "go to the gorilla statue, then to the yellow cone"
    )
    one.wait_for("document.getElementById('camera-image').naturalWidth == 256", "the drone's picture")
    assert not one.driver.find_element(By.ID, "charts").is_displayed()
    assert one.ask("location.search") == "?field=3&segment=1&agent=pvn-plus"


def test_things_are_dragged_and_turned(one):
    """Landmarks and the drone by themselves, and both are turned by their handles, a landmark after a click on it."""
    one.wait_for_view()
    session = one.session
    index = [landmark.name for landmark in session.setup.layout.landmarks].index("GoldCone")
    cone = session.setup.layout.landmarks[index]
    one.wait_for_colour((cone.x, cone.y, 1.0), lambda red, green, blue: red > green > blue + 40, "a golden cone")
    one.drag(one.on_screen((cone.x, cone.y, 1.0)), one.on_screen((cone.x + 4, cone.y, 1.0)))
    one.wait_for("document.getElementById('status').textContent.includes('rearranged')", "the change")
    moved = session.setup.layout.landmarks[index]
    assert moved.x - cone.x == pytest.approx(4, abs=1.0) and abs(moved.y - cone.y) < 1.0
    one.drag(one.on_screen((moved.x, moved.y, 1.0)), one.on_screen((moved.x, moved.y, 1.0)))
    reach = moved.scale * solid_extent(moved.name) + 1.0
    ball = (moved.x + reach * np.cos(moved.yaw), moved.y + reach * np.sin(moved.yaw), 0.4)
    one.wait_for_colour(ball, lambda red, green, blue: red > 150 > green > blue + 40, "an orange ball")
    one.drag(one.on_screen(ball), one.on_screen((moved.x - reach, moved.y, 0.4)))
    one.wait_until(lambda: session.setup.layout.landmarks[index].yaw != moved.yaw, "a turned landmark")
    assert abs(abs(session.setup.layout.landmarks[index].yaw) - np.pi) < 0.6
    x, y, yaw = session.setup.start
    ball = (x + 1.6 * np.cos(yaw), y + 1.6 * np.sin(yaw), 0.4)
    one.wait_for_colour(ball, lambda red, green, blue: min(red, green) > 150 > blue, "a yellow ball")
    one.drag(one.on_screen(ball), one.on_screen((x - 1.6, y + 0.3, 0.4)))
    one.wait_until(lambda: session.setup.own_start is not None, "another heading")
    assert abs(abs(session.setup.start[2]) - np.pi) < 0.6 and session.setup.start[:2] == pytest.approx((x, y))
    one.drag(one.on_screen((x, y, 5.05)), one.on_screen((x + 5, y - 3, 5.05)))
    one.wait_until(lambda: abs(session.setup.start[0] - x) > 2, "another start")
    assert session.setup.start[:2] == pytest.approx((x + 5, y - 3), abs=1.5)
    one.click("again")
    one.wait_until(lambda: session.setup.start == (x, y, yaw), "that the drone is put back")


def test_enter_flies_on_from_where_the_drone_is_and_a_reloaded_page_has_lost_nothing(one):
    one.wait_for_view()
    one.ask("(document.getElementById('speed').value = 'as fast as possible', "
            "document.getElementById('speed').dispatchEvent(new Event('change')), 1)")  # fmt: skip
    one.type(Keys.CONTROL, "a")
    one.type("go to the gorilla,", Keys.SHIFT, Keys.ENTER, Keys.NULL, "zyzzyva")
    assert one.ask("document.getElementById('instruction').value") == "go to the gorilla,\nzyzzyva"
    one.wait_for("document.querySelector('#marks u')?.textContent == 'zyzzyva'", "the mark at an unknown word")
    assert "“zyzzyva”: not a word the pilot knows" in one.text("unknown")
    one.type(" shop")
    one.wait_for("document.querySelector('#marks u.read')?.textContent == 'shop'", "the mark at a word read as another")
    assert "“shop” is read as “stop”" in one.text("read-as")
    words = one.fly("go to the gorilla and stop")
    assert words.startswith("Stopped ") and "m from the gorilla" in words
    first_end = one.session.setup.start
    assert one.ask("document.getElementById('instruction').value") == "", "ready for the next"
    assert one.driver.find_element(By.ID, "charts").is_displayed()
    names = one.ask("[...document.querySelectorAll('[data-map=semantic] text')].map(text => text.textContent)")
    assert "gorilla" in names and len(names) == len(one.session.setup.layout.landmarks)
    boxes = one.ask("[...document.querySelectorAll('[data-map=plan] text')].map(text => text.getBoundingClientRect())"
                    ".map(box => [box.left, box.right, box.top, box.bottom])")  # fmt: skip
    assert len(boxes) == len(names) and all(right > left for left, right, _, _ in boxes), "the map is in view"
    for (left, right, top, bottom), other in combinations(boxes, 2):
        is_beside = right <= other[0] or other[1] <= left
        assert is_beside or abs((top + bottom) - (other[2] + other[3])) > bottom - top, "no name covers another"
    one.fly("turn left")
    second = one.session.flights[-1]
    assert second.pose(0)[:2].tolist() == pytest.approx(first_end[:2], abs=1e-3)
    said = one.ask("[...document.querySelectorAll('#flights .said')].map(said => said.textContent)")
    assert said == ["go to the gorilla and stop", "turn left"]
    one.ask("(document.getElementById('names').click(), 1)")
    one.wait_until(lambda: not one.view_has_names(), "that the names are hidden")
    one.type("and then")
    address, session = one.ask("location.href"), one.session
    one.driver.refresh()
    one.wait_for("document.querySelectorAll('#flights li').length == 2", "the flights after reloading")
    assert one.session is session and one.ask("location.href") == address
    one.wait_for("document.getElementById('instruction').value == 'and then'", "what was being typed")
    assert one.ask("document.getElementById('speed').value") == "as fast as possible"
    assert not one.ask("document.getElementById('names').checked")
    one.ask("(document.getElementById('names').click(), 1)")
    one.wait_for_view()
    x, y = (float(part) for part in second.pose(second.num_positions - 1)[:2])
    assert one.client.scene is not None and one.server.visits.find(one.ask("sessionStorage.getItem('pvn-visitor')"))
    assert one.session.setup.start[:2] == pytest.approx((x, y))
    one.driver.find_element(By.CSS_SELECTOR, "#flights li button").click()
    one.wait_for("document.querySelector('#flights li.shown .said').textContent.startsWith('go to')", "the first again")
    one.ask("(document.getElementById('step').value = 1, document.getElementById('step').oninput(), 1)")
    one.wait_for("document.getElementById('step-number').value == '1'", "step 1")


RECORD_COPIES = """(() => {
    window.copied = window.saidCopied = undefined;
    document.addEventListener('copy', () => {window.copied = getSelection().toString()});
    if (arguments[0]) Object.defineProperty(navigator, 'clipboard', {value: undefined});
    else navigator.clipboard.writeText = async (text) => {window.copied = text};
    new MutationObserver(changes => {
        if (changes.some(change => change.target.textContent === 'Copied')) window.saidCopied = true;
    }).observe(document.body, {childList: true, characterData: true, subtree: true});
})()"""


def test_link_and_command_are_copied_from_a_page_over_plain_http_too(one):
    """A page that comes neither from this computer nor over https has no access to the browser's clipboard."""
    one.ask("(document.getElementById('share').open = true, 1)")
    for is_plain, name in ((False, "link"), (True, "command")):
        one.ask(RECORD_COPIES, is_plain)
        # With the mouse, not by a script: browsers let a page copy for a few seconds after a person's click alone.
        one.driver.find_element(By.CSS_SELECTOR, f"[data-of={name}]").click()
        # The button says so for a moment only, which a slow test would miss.
        one.wait_for("window.saidCopied", "that the button said Copied")
        copied = one.ask("window.copied").strip()
        assert copied == (one.ask("location.href") if name == "link" else one.text("command"))


def test_from_above_all_four_fences_are_in_view(one):
    one.ask("(document.querySelector('[data-camera=above]').click(), 1)")
    colours = {
        (25, 50.0): lambda red, green, blue: blue > 1.4 * max(red, green),
        (25, 0.0): lambda red, green, blue: min(red, green, blue) > 130,
        (50.0, 25): lambda red, green, blue: red > 1.8 * max(green, blue),
        (0.0, 25): lambda red, green, blue: min(red, green) > 1.6 * blue,
    }
    for (x, y), is_right in colours.items():
        one.wait_for_colour((x, y, 1.2), is_right, f"the fence at {x}, {y}")


def test_a_click_on_fly_before_there_is_a_connection_is_not_lost(one):
    count = one.ask("document.querySelectorAll('#flights li').length")
    # In one go, so that the page cannot have connected again.
    one.driver.execute_script("""
        socket.close();
        document.getElementById("instruction").value = "turn left";
        document.getElementById("fly").click();
    """)
    one.wait_for(f"document.querySelectorAll('#flights li').length == {count + 1}", "a flight that was asked for early")
    one.wait_for_view()


def test_a_link_flies_by_itself_beside_another_visitor_and_a_third_is_turned_away(one, invite):
    two = invite("?field=9&agent=gsmn&say=fly+to+the+red+fence")
    two.wait_for("document.querySelectorAll('#flights li').length == 1", "the flight of the link")
    assert two.session.setup.field.number == 9 and two.session.setup.pilot == "gsmn"
    assert two.session is not one.session and "red fence" not in one.text("flights")
    three = invite()
    three.wait_for("!document.getElementById('notice').hidden", "a notice")
    assert "The demo is full" in three.text("notice") and "limit of 2 visitors" in three.text("notice")
    three.leave()
    two.leave()


def test_a_page_of_another_site_cannot_talk_to_the_demo(browser, server):
    browser.switch_to.new_window("tab")
    browser.get("data:text/html,<title>elsewhere</title>")
    for path in ("/panel", "/"):
        address = f"{server.url.replace('http', 'ws')}{path}?visitor=0123456789"
        outcome = browser.execute_async_script(
            "const done = arguments[1], socket = new WebSocket(arguments[0], 'viser-v1.1.1');"
            "socket.onopen = () => done('open'); socket.onerror = () => done('refused')",
            address,
        )
        assert outcome == "refused"
    browser.close()
    browser.switch_to.window(browser.window_handles[0])


def test_on_a_phone_the_panel_is_one_line_while_it_flies_and_the_maps_are_a_swipe_away(server, wait_until):
    driver = open_browser(390, 780, 1, phone=True)
    try:
        guest = Guest(driver, server, wait_until)
        guest.wait_for_view()
        assert guest.ask("document.documentElement.scrollWidth") <= 390
        guest.session.set_speed(0.001)  # so that it still flies when the browser has done all of the following
        guest.type(Keys.CONTROL, "a")
        guest.type("fly to the blue fence", Keys.ENTER)
        guest.wait_for("document.body.classList.contains('folded')", "that the panel folds")
        line, view = (guest.driver.find_element(By.ID, name).rect for name in ("line", "viewer"))
        assert line["height"] < 60 and view["height"] > 0.85 * guest.ask("innerHeight")
        assert not guest.driver.find_element(By.ID, "sheet").is_displayed()
        drone = guest.session.setup.start
        guest.wait_until(
            lambda: np.linalg.norm(guest.client.camera.position[:2] - drone[:2]) < 20, "the camera behind it"
        )
        guest.click("line-stop")
        guest.wait_for("!document.body.classList.contains('folded')", "that the panel unfolds")
        tabs = guest.ask("[...document.querySelectorAll('#pages button')].map(tab => tab.textContent)")
        assert tabs == ["Talk", "Camera", "Plan", "Charts", "Map", "Words"]
        guest.ask("(document.getElementById('sheet').scrollTo({left: 2 * innerWidth}), 1)")
        guest.wait_for("document.querySelector('#pages [aria-current=true]').textContent == 'Plan'", "the map's page")
        plan = guest.ask("document.querySelector('[data-map=plan] .map').getBoundingClientRect().toJSON()")
        assert plan["left"] >= 0 and plan["right"] <= 390 and plan["width"] > 150
    finally:
        driver.quit()
