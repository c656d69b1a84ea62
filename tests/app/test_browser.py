"""The demo in a real browser: headless Chromium types, flies, slides and drags, alone and beside another visitor.

Nothing here is expected after a fixed time: a software renderer shares the cores with the flights, and with whatever
else runs on the machine.
"""

import functools
import gc
import io
import shutil
import time
import weakref

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
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.actions.action_builder import ActionBuilder  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from viser.transforms import SO3  # noqa: E402

from pvn.app.demo.server import DemoConfig, DemoServer  # noqa: E402

SCALE = 0.5
"""Pixels that are drawn for each pixel of the page, across and down: a renderer in software has to save work."""
SCRIPT_LIMIT_S = 120.0
"""A page that is being drawn in software on a busy machine may take most of a minute to answer."""
HEARD_S = 3.0
"""A key press that has had no effect after this long is repeated."""


@pytest.fixture(scope="module")
def server():
    with DemoServer(DemoConfig(port=0, field=3, visitors=2)) as server:
        yield server


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (
        "--headless=new", "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
        "--disable-gpu-rasterization", "--disable-gpu-compositing",  # half the work where there is no GPU
        "--disable-dev-shm-usage", "--window-size=1000,600", f"--force-device-scale-factor={SCALE}",
    ):  # fmt: skip
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_script_timeout(SCRIPT_LIMIT_S)
    yield driver
    driver.quit()


class Guest:
    """Someone who has the page in a tab. Only the tab in front is drawn, which is most of the work of a browser."""

    def __init__(self, browser, server, wait_until):
        self.browser, self.server = browser, server
        # Every question to the browser takes time from what is waited for.
        self.wait_until = functools.partial(wait_until, every=0.2)
        browser.switch_to.new_window("tab")
        self.tab = browser.current_window_handle
        browser.get(server.url)

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

    @property
    def text(self):
        return self.patiently(lambda: self.driver.execute_script("return document.body.innerText"))

    def wait_for(self, *texts):
        """Wait until one of the texts is on the page."""
        self.wait_until(lambda: any(text in self.text for text in texts), lambda: f"{texts} in {self.text!r}")

    def click(self, find, what):
        """Click on what a search finds, as soon as it is there and takes clicks."""

        def attempt():
            try:
                found = find()
                if found is not None:
                    found.click()
                return found is not None
            except WebDriverException:  # covered, moving or replaced: the page is still being arranged
                return False

        self.wait_until(attempt, f"a click on {what}")

    def press(self, label):
        def find():
            buttons = self.driver.find_elements(By.TAG_NAME, "button")
            return next((button for button in buttons if button.text.strip() == label), None)

        self.click(find, f"the button {label!r}")

    def unfold(self, title):
        self.click(lambda: self.driver.find_element(By.XPATH, f"//div[text()='{title}']"), f"the folder {title!r}")

    def type(self, text):
        """Replace the instruction, and wait until the server knows it."""
        box = self.driver.find_element(By.TAG_NAME, "textarea")
        box.send_keys(Keys.CONTROL, "a")
        box.send_keys(text)
        self.wait_until(
            lambda: any(session.setup.instruction == text for session in self.server._sessions.values()),
            lambda: f"{text!r} as the instruction, instead of {box.get_attribute('value')!r}",
        )

    def slide_to(self, step):
        """Move the slider with the keys: to its beginning, and from there a step at a time."""

        def position():
            return int(self.driver.find_element(By.CSS_SELECTOR, "[role=slider]").get_attribute("aria-valuenow"))

        def press_towards_the_step():
            now = position()
            if now == step:
                return True
            ActionChains(self.driver).send_keys(Keys.HOME if now > step else Keys.ARROW_RIGHT).perform()
            deadline = time.monotonic() + HEARD_S
            while position() == now and time.monotonic() < deadline:
                time.sleep(0.05)
            return False

        self.click(lambda: self.driver.find_element(By.CSS_SELECTOR, "[role=slider]"), "the slider")
        self.wait_until(press_towards_the_step, lambda: f"step {step} on the slider, now at {position()}")

    def picture(self):
        """A screenshot (H, W, 3), in the pixels of the page."""
        content = self.patiently(self.driver.get_screenshot_as_png)
        picture = Image.open(io.BytesIO(content)).convert("RGB")
        return np.asarray(picture.resize((round(picture.width / SCALE), round(picture.height / SCALE)))).astype(int)


@pytest.fixture(scope="module")
def invite(browser, server, wait_until):
    return lambda: Guest(browser, server, wait_until)


@pytest.fixture(scope="module")
def one(invite, server, wait_until):
    """The first guest, who does one thing after another and leaves when everybody else has left."""
    guest = invite()
    guest.wait_for("This is field 3")
    yield guest
    sessions = [weakref.ref(session) for session in server._sessions.values()]
    guest.leave()
    wait_until(lambda: server.num_visitors == 0, "that the server noticed that everybody left")

    def are_freed():
        gc.collect()
        return all(session() is None for session in sessions)

    assert sessions
    wait_until(are_freed, "that the sessions of visitors who left were freed")


def pixel(camera, point):
    """Where (u, v) a camera handle of viser's sees a point (3,), field frame."""
    x, y, z = SO3(camera.wxyz).inverse() @ (np.array(point) - camera.position)
    focal = camera.image_height / 2 / np.tan(camera.fov / 2)
    return camera.image_width / 2 + focal * x / z, camera.image_height / 2 + focal * y / z


def drag_the_golden_cone(guest, server):
    """Drag it four metres to the east with the mouse, as soon as it is drawn."""
    (client,) = server._server.get_clients().values()
    (session,) = server._sessions.values()
    index = [landmark.name for landmark in session.setup.layout.landmarks].index("GoldCone")
    cone = session.setup.layout.landmarks[index]
    canvas = guest.driver.find_element(By.TAG_NAME, "canvas").rect

    def on_screen(east):
        u, v = pixel(client.camera, (cone.x + east, cone.y, 1.0))
        return int(canvas["x"] + u), int(canvas["y"] + v)

    def is_drawn():
        u, v = on_screen(0.0)
        red, green, blue = guest.picture()[v, u]
        return red > green > blue and red - blue > 60

    guest.wait_until(is_drawn, "a golden cone in the picture")
    grab, drop = on_screen(0.0), on_screen(4.0)
    builder = ActionBuilder(guest.driver)
    for step, (u, v) in enumerate((grab, ((grab[0] + drop[0]) // 2, (grab[1] + drop[1]) // 2), drop)):
        builder.pointer_action.move_to_location(u, v)
        if step == 0:
            builder.pointer_action.pointer_down()
        builder.pointer_action.pause(0.5)
    builder.pointer_action.pointer_up()
    builder.perform()
    guest.wait_for("You have rearranged this field")
    moved = session.setup.layout.landmarks[index]
    assert moved.x - cone.x == pytest.approx(4, abs=1.0) and abs(moved.y - cone.y) < 1.0


RECORD_COPIES = """
    window.copied = window.saidCopied = undefined;
    document.addEventListener('copy', () => {window.copied = getSelection().toString()});
    if (arguments[0]) Object.defineProperty(navigator, 'clipboard', {value: undefined});
    else navigator.clipboard.writeText = async (text) => {window.copied = text};
    new MutationObserver(changes => {
        if (changes.some(change => change.target.textContent === 'Copied')) window.saidCopied = true;
    }).observe(document.body, {childList: true, characterData: true, subtree: true});
"""


def test_the_command_is_copied_from_a_page_over_plain_http_too(one):
    """A page that comes neither from this computer nor over https has no access to the browser's clipboard."""
    one.unfold("Share and save")
    for is_plain in (False, True):
        one.driver.execute_script(RECORD_COPIES, is_plain)
        one.press("Copy")
        # The button says so for a moment only, which a slow test would miss.
        one.wait_until(lambda: one.driver.execute_script("return window.saidCopied"), "that the button said Copied")
        assert one.driver.execute_script("return window.copied").strip() == "pvn fly --field 3 --segment 1"


def test_visitors_drag_type_fly_and_slide_back_in_time_each_alone_and_a_third_is_turned_away(one, invite, server):
    drag_the_golden_cone(one, server)
    two = invite()
    two.wait_for("This is field 3")
    three = invite()
    three.wait_for("The demo is full")
    assert "The limit of 2 visitors is reached" in three.text and "Fly" not in three.text.split()
    three.leave()
    for session in server._sessions.values():
        session.set_speed(0)
    one.type("go to the gorilla and stop, zyzzyva")
    two.type("fly to the quetzalcoatl")
    one.press("Fly")
    two.press("Fly")
    for guest in (one, two):
        guest.wait_for("There is no demonstration of this flight")
    assert "zyzzyva' is not a word I know" in one.text and "quetzalcoatl" not in one.text
    assert "quetzalcoatl' is not a word I know" in two.text and "zyzzyva" not in two.text
    two.leave()
    assert "Play again" in one.text and "Continue from here" in one.text
    before = one.picture()
    one.slide_to(1)

    seen = one.driver.find_element(
        By.CSS_SELECTOR, "img[src^='blob:']"
    ).rect  # what the drone's camera saw, on the page
    left, top, right, bottom = (
        int(edge) for edge in (seen["x"], seen["y"], seen["x"] + seen["width"], seen["y"] + seen["height"])
    )

    def is_grass_at_another_moment():
        after = one.picture()
        middle = after[150:420, 360:640].reshape(-1, 3)
        is_grass = (middle.argmax(1) == 1).mean() > 0.3
        has_changed = np.abs(after - before).sum(-1) > 60
        return is_grass and has_changed[top:bottom, left:right].mean() > 0.2

    one.wait_until(is_grass_at_another_moment, "another moment of the flight in the picture")
