"""The demo in a real browser: headless Chromium types, flies, slides and drags, alone and beside another visitor."""

import gc
import io
import shutil
import sys
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from PIL import Image

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="no Chromium here: apt-get install chromium chromium-driver"
)
pytest.importorskip("viser", reason='no viser here: pip install "pvn[app]"')
webdriver = pytest.importorskip("selenium.webdriver", reason="no selenium here: pip install selenium")
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.actions.action_builder import ActionBuilder  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from viser.transforms import SO3  # noqa: E402

from pvn.app.demo.server import DemoConfig, DemoServer  # noqa: E402

PATIENCE = 90.0
"""Seconds: a software renderer shares two cores with the flights."""


@pytest.fixture(scope="module")
def server():
    before = torch.get_num_threads()
    with DemoServer(DemoConfig(port=0, seed=3, visitors=2)) as server:
        yield server
    torch.set_num_threads(before)


class Guest:
    """Someone at a browser."""

    def __init__(self, url):
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in (
            "--headless=new", "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
            "--disable-dev-shm-usage", "--window-size=1000,600",
        ):  # fmt: skip
            options.add_argument(flag)
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
        self.driver.get(url)

    @property
    def text(self):
        return self.driver.execute_script("return document.body.innerText")

    def wait_for(self, *texts):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = next((text for text in texts if text in self.text), None)
            if found is not None:
                return found
            time.sleep(0.1)
        raise AssertionError(f"waited for {texts}, saw: {self.text}")

    def press(self, label):
        buttons = self.driver.find_elements(By.TAG_NAME, "button")
        next(button for button in buttons if button.text.strip() == label).click()

    def type(self, text):
        box = self.driver.find_element(By.TAG_NAME, "textarea")
        box.send_keys(Keys.CONTROL, "a")
        box.send_keys(text)
        time.sleep(0.5)

    def slide_to(self, step):
        """Move the time slider with the arrow keys; a key that a busy page does not hear is pressed again."""
        slider = self.driver.find_element(By.CSS_SELECTOR, "[role=slider]")
        ActionChains(self.driver).click(slider).perform()
        for _ in range(200):
            now = int(self.driver.find_element(By.CSS_SELECTOR, "[role=slider]").get_attribute("aria-valuenow"))
            if now == step:
                return
            ActionChains(self.driver).send_keys(Keys.ARROW_LEFT if now > step else Keys.ARROW_RIGHT).perform()
            time.sleep(0.1)
        raise AssertionError(f"the slider is at {now}, expected {step}")

    def picture(self):
        return np.asarray(Image.open(io.BytesIO(self.driver.get_screenshot_as_png())).convert("RGB"))


@pytest.fixture
def invite(server):
    guests = []

    def arrive():
        guest = Guest(server.url)
        guests.append(guest)
        return guest

    yield arrive
    ghosts = [weakref.ref(visitor) for visitor in server._visitors.values()]
    for guest in guests:
        guest.driver.quit()
    deadline = time.monotonic() + 20
    while server.num_visitors and time.monotonic() < deadline:
        time.sleep(0.1)
    assert server.num_visitors == 0, "a visitor who leaves frees the place"
    time.sleep(0.5)
    gc.collect()
    assert ghosts and all(ghost() is None for ghost in ghosts), "and everything else"


def _pixel(camera, place):
    """Where (u, v) a camera handle of viser's sees a place, field frame."""
    x, y, z = SO3(camera.wxyz).inverse() @ (np.array(place) - camera.position)
    focal = camera.image_height / 2 / np.tan(camera.fov / 2)
    return camera.image_width / 2 + focal * x / z, camera.image_height / 2 + focal * y / z


def drag_the_golden_cone(guest, server):
    """Take it four metres to the east with the mouse."""
    (client,) = server._server.get_clients().values()
    (visitor,) = server._visitors.values()
    names = [mark.name for mark in visitor.choice.layout.landmarks]
    index = names.index("GoldCone")
    mark = visitor.choice.layout.landmarks[index]
    canvas = guest.driver.find_element(By.TAG_NAME, "canvas").rect
    grab, drop = (_pixel(client.camera, (mark.x + east, mark.y, 1.0)) for east in (0.0, 4.0))
    builder = ActionBuilder(guest.driver)
    for step, (u, v) in enumerate((grab, ((grab[0] + drop[0]) / 2, (grab[1] + drop[1]) / 2), drop)):
        builder.pointer_action.move_to_location(int(canvas["x"] + u), int(canvas["y"] + v))
        if step == 0:
            builder.pointer_action.pointer_down()
        builder.pointer_action.pause(0.5)
    builder.pointer_action.pointer_up()
    builder.perform()
    guest.wait_for("Your own arrangement")
    moved = visitor.choice.layout.landmarks[index]
    assert moved.x - mark.x == pytest.approx(4, abs=1.0) and abs(moved.y - mark.y) < 1.0


def test_a_visitor_drags_a_landmark_types_flies_and_slides_back_in_time(invite, server, capsys):
    guest = invite()
    guest.wait_for("This is field 3")
    time.sleep(4)  # until it is drawn
    drag_the_golden_cone(guest, server)
    guest.type("go to the gorilla and stop, zyzzyva")
    pressed = time.monotonic()
    guest.press("Fly")
    guest.wait_for("Flying: step")
    waited = time.monotonic() - pressed
    with capsys.disabled():
        sys.stdout.write(f" first step seen after {waited:.1f} s ")
    assert waited < 15, "with a renderer in software on the same cores"
    guest.wait_for("Stopped after", "Never stopped")
    assert "never read, and will not heed: zyzzyva" in guest.text
    assert "Play again" in guest.text
    before = guest.picture()
    guest.slide_to(1)
    time.sleep(2)
    after = guest.picture()
    middle = after[150:420, 360:640].reshape(-1, 3).astype(int)
    assert (middle.argmax(1) == 1).mean() > 0.3, "grass"
    assert (np.abs(after.astype(int) - before).sum(-1) > 60).mean() > 0.01, "another moment looks different"


COPIED = """
    document.addEventListener('copy', () => {window.copied = getSelection().toString()});
    if (arguments[0]) Object.defineProperty(navigator, 'clipboard', {value: undefined});
    else navigator.clipboard.writeText = async (text) => {window.copied = text};
"""


@pytest.mark.parametrize("is_plain", [True, False])
def test_the_command_is_copied_from_a_page_over_plain_http_too(invite, is_plain):
    """Where the page comes neither from this computer nor over https, browsers have no clipboard for it."""
    guest = invite()
    guest.wait_for("This is field 3")
    guest.driver.execute_script(COPIED, is_plain)
    guest.driver.find_element(By.XPATH, "//div[text()='Share and save']").click()
    time.sleep(2)  # until it has unfolded
    guest.press("Copy")
    guest.wait_for("Copied")
    assert guest.driver.execute_script("return window.copied").strip() == "pvn fly --seed 3 --segment 1"


def test_two_visitors_at_once_see_their_own_flights_and_a_third_is_told(invite, server):
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(lambda _: invite(), range(2))
    for guest in (one, two):
        guest.wait_for("This is field 3")
    three = invite()
    three.wait_for("The demo is full")
    assert "All 2 places are taken" in three.text and "Fly" not in three.text.split()
    for visitor in server._visitors.values():
        visitor.set_speed(0)
    one.type("fly to the xylophonist")
    two.type("fly to the quetzalcoatl")
    one.press("Fly")
    two.press("Fly")
    for guest in (one, two):
        guest.wait_for("Stopped after", "Never stopped")
    assert "xylophonist" in one.text and "quetzalcoatl" not in one.text
    assert "quetzalcoatl" in two.text and "xylophonist" not in two.text
