"""The page of one visitor: what to press and type on the left, the field in the middle, what the pilot thinks right."""

from __future__ import annotations

import html
import random
import re
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import viser
from viser import uplot

from pvn.app.demo.flight_setup import LARGEST_SEED, MOST_LETTERS, PILOTS, Choice, Ground, Pilot
from pvn.app.demo.scene import Stage
from pvn.app.demo.scene import View as CameraView
from pvn.app.demo.session import State
from pvn.app.demo.shown_flight import Shown
from pvn.viz.flight_record import Floats
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Layout

if TYPE_CHECKING:
    from pvn.app.demo.session import Visitor

PILOT_NAMES: dict[str, Pilot] = dict(zip(("PVN", "GSMN", "Chaplot", "Oracle"), PILOTS, strict=True))
SPEEDS = {"as it is": 1.0, "2 x": 2.0, "4 x": 4.0, "as fast as it goes": 0.0}
KINDS = {kind.noun: name for name, kind in sorted(LANDMARK_CLASSES.items(), key=lambda item: item[1].noun)}
CHART_PX = 108
IMAGE_SCALE = 3
COPY = (
    "const code=this.previousElementSibling;"
    "const say=text=>{this.textContent=text;setTimeout(()=>this.textContent='Copy',1500)};"
    "const select=()=>{getSelection().selectAllChildren(code);"
    "say(document.execCommand('copy')?'Copied':'Press Ctrl+C')};"
    "navigator.clipboard?navigator.clipboard.writeText(code.textContent).then(()=>say('Copied'),select):select()"
)
"""Browsers lend their clipboard to pages from this computer or over https alone; for others the code is selected."""
LEGEND = (
    "*On the ground: red, where the pilot expects to fly; green, where it expects to stop; blue, where it flew; white "
    "dashes, the demonstration; yellow, 5 m around the goal.*"
)
LEFT_PX, RIGHT_PX = 330, 340


def _enlarged(image: Any) -> Any:
    """The drone's picture with each pixel as a square, so that it fills its panel and stays sharp."""
    return image.repeat(IMAGE_SCALE, 0).repeat(IMAGE_SCALE, 1)


def _number(title: str) -> int:
    """The place, from 0, of a menu's entry such as "3. stone well"; -1 of an empty menu's."""
    number = title.partition(".")[0]
    return int(number) - 1 if number.isdigit() else -1


def _plain(text: str) -> str:
    """The text as Markdown that shows it as it is."""
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", text)


def _titles(ground: Ground) -> list[str]:
    """The segments' numbers and instructions, short enough for a menu."""
    return [
        f"{place + 1}. {textwrap.shorten(segment.task.instruction, 60, placeholder=' …')}"
        for place, segment in enumerate(ground.segments)
    ]


def _set(handle: Any, value: Any) -> None:
    """Give a widget a value; viser's types say that one cannot."""
    handle.value = value


class Page:
    """The widgets of one visitor. `bind` says who is told when they are used."""

    def __init__(self, client: viser.ClientHandle, has_corpus: bool) -> None:
        self._client, self._has_corpus = client, has_corpus
        self._ground: Ground | None = None
        self._layout: Layout | None = None
        gui = client.gui
        gui.main_panel.dock_left()
        gui.main_panel.set_width(LEFT_PX)
        self.stage = Stage(client)
        self._add_flying(gui)
        with gui.add_folder("Who flies, where"):
            self._add_choosing(gui)
        with gui.add_folder("How to look"):
            self._view = gui.add_dropdown("Camera", get_args(CameraView))
            self._speed = gui.add_dropdown("Speed", tuple(SPEEDS), initial_value="2 x")
            self._names = gui.add_checkbox("Names", True, hint="What the landmarks are called.")
            gui.add_markdown(LEGEND)
        with gui.add_folder("Landmarks", expand_by_default=False):
            self._add_landmarks(gui)
        with gui.add_folder("Share and save", expand_by_default=False):
            self._command = gui.add_html("")
            self._save_field = gui.add_button("Field (.json)", icon=viser.Icon.DOWNLOAD)
            self._save_flight = gui.add_button_group("Flight", (".png", ".mp4", ".rrd"))
        self._add_seeing(gui)
        self.stage.show_view("free")

    def _add_flying(self, gui: viser.GuiApi) -> None:
        self._text = gui.add_text(
            "Instruction", "", multiline=True, hint=f"What the drone is to do; at most {MOST_LETTERS} letters."
        )
        self._fly = gui.add_button("Fly", icon=viser.Icon.PLANE_DEPARTURE, color="green")
        self._stop = gui.add_button("Stop", icon=viser.Icon.HAND_STOP, color="red", visible=False)
        self._status = gui.add_markdown("")
        self._warning = gui.add_markdown("", visible=False)
        self._time = gui.add_slider("Step", 0, 1, 1, 0, disabled=True, hint="Replay any step of the flight.")
        self._play = gui.add_button("Play again", icon=viser.Icon.PLAYER_PLAY, visible=False)

    def _add_choosing(self, gui: viser.GuiApi) -> None:
        self._pilot = gui.add_dropdown("Pilot", tuple(PILOT_NAMES), hint="Only the oracle knows the way.")
        self._segment = gui.add_dropdown("Segment", ("",), hint="Instructions of this field, with demonstrations.")
        self._seed = gui.add_number("Field", 0, min=0, max=LARGEST_SEED, step=1, hint="Each number is a field.")
        self._go = gui.add_button("Go to this field", icon=viser.Icon.MAP_PIN)
        self._another = gui.add_button("Any other field", icon=viser.Icon.DICE)
        self._name = gui.add_text(
            "Corpus id", "0-0", visible=self._has_corpus, hint="Environment and place of a corpus segment."
        )
        self._go_segment = gui.add_button("Go to this segment", icon=viser.Icon.BOOK, visible=self._has_corpus)
        self._any_segment = gui.add_button("Any other segment", icon=viser.Icon.DICE, visible=self._has_corpus)

    def _add_landmarks(self, gui: viser.GuiApi) -> None:
        gui.add_markdown("Drag them in the field, or:")
        self._kind = gui.add_dropdown("Kind", tuple(KINDS))
        self._add = gui.add_button("Add one", icon=viser.Icon.PLUS)
        self._mark = gui.add_dropdown("There is", ("",))
        self._remove = gui.add_button("Remove it", icon=viser.Icon.TRASH)
        self._restore = gui.add_button("As it was", icon=viser.Icon.ARROW_BACK_UP)

    def _add_seeing(self, gui: viser.GuiApi) -> None:
        panel = gui.add_panel()
        with panel.add_tab("Sees and thinks", viser.Icon.EYE):
            self._image = gui.add_image(np.full((72 * IMAGE_SCALE, 128 * IMAGE_SCALE, 3), 230, np.uint8), format="jpeg")
            self._sheet = gui.add_image(
                np.full((8, 8, 3), 255, np.uint8), format="jpeg", jpeg_quality=88, visible=False
            )
            self._stop_chart = self._add_chart(gui, "stop probability", "#d62728", 1.08)
            self._speed_chart = self._add_chart(gui, "speed (m/s)", "#1f77b4", 3.2)
        panel.dock_right()
        panel.set_width(RIGHT_PX)

    def bind(self, visitor: Visitor) -> None:
        """Tell this visitor's state what is pressed from now on."""
        self.stage.on_drag = visitor.move
        self._fly.on_click(lambda _: visitor.fly(self._text.value))
        self._stop.on_click(lambda _: visitor.stop())
        self._play.on_click(lambda _: visitor.play())
        self._go.on_click(lambda _: visitor.go_to_seed(int(self._seed.value)))
        self._another.on_click(lambda _: visitor.go_to_seed(random.randrange(LARGEST_SEED + 1)))
        self._go_segment.on_click(lambda _: visitor.go_to_segment(self._name.value))
        self._any_segment.on_click(lambda _: visitor.go_to_segment(""))
        self._add.on_click(lambda _: visitor.add(KINDS[self._kind.value]))
        self._remove.on_click(lambda _: visitor.remove(_number(self._mark.value)))
        self._restore.on_click(lambda _: visitor.restore())
        self._save_field.on_click(lambda _: visitor.save_field())
        self._save_flight.on_click(lambda event: visitor.save_flight(event.target.value))
        self._view.on_update(lambda _: self.stage.show_view(self._view.value))
        self._names.on_update(lambda _: self.stage.show_names(self._names.value))

        # The others also change by themselves, while the drone flies and when a field is shown.
        def by_hand(act: Callable[[], None]) -> Callable[[viser.GuiEvent[Any]], None]:
            return lambda event: act() if event.client is not None else None

        self._text.on_update(by_hand(lambda: visitor.tell(self._text.value)))
        self._time.on_update(by_hand(lambda: visitor.replay(int(self._time.value))))
        self._speed.on_update(by_hand(lambda: visitor.set_speed(SPEEDS[self._speed.value])))
        self._pilot.on_update(by_hand(lambda: visitor.pick_pilot(PILOT_NAMES[self._pilot.value])))
        self._segment.on_update(by_hand(lambda: visitor.pick(_number(self._segment.value))))

    def _add_chart(self, gui: viser.GuiApi, label: str, colour: str, top: float) -> viser.GuiUplotHandle:
        return gui.add_uplot(
            (np.array([0.0, 1.0]), np.array([np.nan, np.nan])),
            (uplot.Series(label="s"), uplot.Series(label=label, stroke=colour, width=2)),
            title=label,
            scales={"x": uplot.Scale(time=False, auto=True), "y": uplot.Scale(range=(0.0, top))},
            legend=uplot.Legend(show=False),
            height=CHART_PX,
            padding=(10, 16, 0, 0),
        )

    def show_menus(self, choice: Choice) -> None:
        """Who flies, and which segment."""
        if self._ground is not choice.ground:
            self._ground = choice.ground
            self._segment.options = tuple(_titles(choice.ground))
        _set(self._segment, _titles(choice.ground)[choice.place])
        _set(self._pilot, next(name for name, pilot in PILOT_NAMES.items() if pilot == choice.pilot))

    def show_choice(self, choice: Choice) -> None:
        """The field, who flies, the segments to choose from, the instruction."""
        self.show_menus(choice)
        if self._layout is not choice.layout:
            self._layout = choice.layout
            self.stage.show_field(choice.layout)
            nouns = [LANDMARK_CLASSES[mark.name].noun for mark in choice.layout.landmarks]
            self._mark.options = tuple(f"{place + 1}. {noun}" for place, noun in enumerate(nouns)) or ("",)
        if choice.instruction != " ".join(self._text.value.split()):
            _set(self._text, choice.instruction)
        if choice.ground.seed is None:
            _set(self._name, choice.segment.id)
        else:
            _set(self._seed, choice.ground.seed)
        self.stage.show_task(choice)

    def show_state(self, state: State, num_places: int) -> None:
        """What can be done now."""
        self._fly.visible, self._stop.visible = state != "flying", state == "flying"
        self._pilot.disabled = self._segment.disabled = state == "flying"
        self._play.visible = state == "replaying"
        self._time.disabled = state != "replaying"
        self._warning.visible = False
        if state != "replaying":
            _set(self._time, 0)
            self._time.max = 1
        else:
            self._time.max = max(num_places - 1, 1)
            _set(self._time, num_places - 1)

    def show_step(self, shown: Shown, moves_slider: bool = True) -> None:
        """A step of the flight, everywhere."""
        with self._client.atomic():
            self.stage.show_pose(shown.pose_world)
            self.stage.show_path(shown.flown)
            self.stage.show_heat(shown.heat)
            self.stage.show_image(shown.moment.image)
            self._image.image = _enlarged(shown.moment.image)
            self._sheet.image, self._sheet.visible = shown.sheet, True
            if moves_slider:
                self._time.max = max(self._time.max, shown.index, 1)
                _set(self._time, shown.index)
            seconds = shown.seconds.astype(np.float64)
            self._speed_chart.data = (seconds, shown.speeds.astype(np.float64))
            self._stop_chart.data = (seconds, shown.stop_chances.astype(np.float64))

    def move_drone(self, pose_world: Floats) -> None:
        """Put the drone at a pose (6,), field frame."""
        self.stage.show_pose(pose_world)

    def say(self, text: str) -> None:
        """A line about what happens."""
        self._status.content = text
        self._warning.visible = False

    def warn(self, text: str) -> None:
        """A line about what cannot be done."""
        self._warning.content = f"**⚠** {_plain(text)}"
        self._warning.visible = True

    def share(self, command: str, is_edited: bool) -> None:
        """The command that repeats the flight, and a button that copies it."""
        note = "<p>It needs the field as a file: the button below.</p>" if is_edited else ""
        self._command.content = (
            "<div style='padding:0 0.75em;font-size:0.85em'><p>This command repeats the flight exactly:</p>"
            "<code style='display:block;padding:0.5em;background:#eef;white-space:pre-wrap'>"
            f"{html.escape(command)}</code>"
            f'<button onclick="{COPY}" style="margin-top:0.4em">Copy</button>{note}</div>'
        )

    def send_file(self, name: str, content: bytes) -> None:
        """A file to keep."""
        self._client.send_file_download(name, content, save_immediately=True)
