"""The pictures of the demo in docs/, taken anew in Chromium, and how long its page takes to open and to fly.

    make screenshots

Look at them before they are committed.
"""

import io
import time
from pathlib import Path

from PIL import Image
from selenium.webdriver.common.keys import Keys
from test_browser import Guest, open_browser

from pvn.app.demo.server import DemoConfig, DemoServer

DOCS = Path(__file__).parents[2] / "docs"
SHOWN_FIRST = "go to the gorilla statue, then to the yellow cone"
CONVERSATION = ("go to the rusty barrel and stop in front of it", "now fly to the gorilla, then on to the yellow cone")
LIMIT_S = 300.0


def wait_until(condition, what, every=0.02):
    deadline = time.monotonic() + LIMIT_S
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} never happened"
        time.sleep(every)
    return value


def screen(driver):
    """What the browser shows."""
    return Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")


def save(picture, name, width):
    height = round(picture.height * width / picture.width)
    picture.resize((width, height), Image.Resampling.LANCZOS).save(DOCS / f"{name}.jpg", quality=82)


def take_off(guest, text, steps):
    """Fly by an instruction until so many steps are on the page; how many seconds that is after Enter."""
    guest.type(Keys.CONTROL, "a")
    guest.type(text)
    guest.ask("(window.took = null, 1)")
    guest.ask(f"""(document.getElementById('instruction').addEventListener('keydown', () => {{
        const began = performance.now();
        new MutationObserver((_, observer) => {{
            if (!(Number(document.getElementById('line-status').textContent.match(/\\d+/)) >= {steps})) return;
            window.took = performance.now() - began;
            observer.disconnect();
        }}).observe(document.getElementById('line-status'), {{childList: true}});
    }}, {{once: true}}), 1)""")
    guest.type(Keys.ENTER)
    guest.wait_for("window.took", "the steps")
    return guest.ask("window.took") / 1000


def land(guest, count):
    guest.wait_for(f"document.querySelectorAll('#flights li').length == {count}", "the end of the flight")
    time.sleep(2.0)  # until it is drawn


def show_desk(server):
    driver = open_browser(1440, 1043, 1)  # of which the browser itself takes 143
    try:
        began = time.perf_counter()
        guest = Guest(driver, server, wait_until)
        guest.wait_for("document.querySelectorAll('#examples button').length == 8", "the panel")
        print(f"the panel can be used after {time.perf_counter() - began:.1f} s")
        guest.wait_for_view()
        guest.wait_for_colour((40, 3, 0.0), lambda red, green, blue: green > blue, "the field")
        print(f"the field is drawn after {time.perf_counter() - began:.1f} s")
        time.sleep(3.0)
        guest.ask("(document.querySelector('[data-camera=follow]').click(), 1)")
        for count, text in enumerate(CONVERSATION, start=1):
            print(f"the first step is on the page {take_off(guest, text, 1):.2f} s after Enter")
            if count == 2:
                wait_until(lambda: int(guest.text("status").split()[1].rstrip(":")) >= 5, "the fifth step", 0.2)
                save(screen(driver), "demo", 1200)
            land(guest, count)
    finally:
        driver.quit()


def show_phone(server):
    driver = open_browser(390, 844, 1, phone=True)
    try:
        guest = Guest(driver, server, wait_until)
        guest.wait_for_view()
        time.sleep(3.0)
        shots = [screen(driver)]
        take_off(guest, SHOWN_FIRST, 8)
        time.sleep(1.0)
        shots.append(screen(driver))
        land(guest, 1)
        guest.ask("(document.getElementById('sheet').scrollTo({left: 2 * innerWidth}), 1)")
        time.sleep(2.0)
        shots.append(screen(driver))
    finally:
        driver.quit()
    width, height = shots[0].size
    together = Image.new("RGB", (3 * width + 2 * 16, height), "white")
    for place, shot in enumerate(shots):
        together.paste(shot, (place * (width + 16), 0))
    save(together, "demo_phone", 900)


if __name__ == "__main__":
    with DemoServer(DemoConfig(host="127.0.0.1", port=0, field=3)) as demo:
        show_desk(demo)
        show_phone(demo)
