"""The page of one visitor: controls on the left, the field in 3D in the middle, what the pilot sees on the right."""

from __future__ import annotations

import html
import random
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import viser
from viser import uplot

from pvn.app.demo.display import State
from pvn.app.demo.flight_setup import MAX_FIELD_NUMBER, FieldChoice, FlightSetup
from pvn.app.demo.scene import CameraMode, FieldView3D
from pvn.app.demo.shown_flight import ShownStep
from pvn.corpus.typed_instruction import clean_instruction
from pvn.viz import palette
from pvn.viz.flight_record import Floats
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Layout
from pvn.world.task import MAX_CHARACTERS, SUCCESS_M

if TYPE_CHECKING:
    from pvn.app.demo.session import Session

SPEEDS = {"real time": 1.0, "2 x": 2.0, "4 x": 4.0, "as fast as possible": 0.0}
LANDMARKS_BY_NOUN = {kind.noun: name for name, kind in sorted(LANDMARK_CLASSES.items(), key=lambda item: item[1].noun)}
CHART_PX = 108
IMAGE_SCALE = 3
COPY = (
    "const code=this.previousElementSibling;"
    "const show=text=>{this.textContent=text;setTimeout(()=>this.textContent='Copy',1500)};"
    "const select=()=>{getSelection().selectAllChildren(code);"
    "show(document.execCommand('copy')?'Copied':'Press Ctrl+C')};"
    "navigator.clipboard?navigator.clipboard.writeText(code.textContent).then(()=>show('Copied'),select):select()"
)
"""Browsers give pages access to the clipboard only from this computer or over https; otherwise the code is selected."""
GRASS = "#48722b"
LEGEND = (
    *(
        (f"<div style='width:80%;height:100%;background:radial-gradient({colour},transparent 70%)'></div>", label)
        for label, colour in zip(palette.PREDICTION_LABELS, palette.PREDICTION_COLOURS, strict=True)
    ),
    (f"<div style='width:100%;border-top:3px solid {palette.FLOWN}'></div>", "flown path"),
    (f"<div style='width:90%;border-top:3px dashed {palette.DEMONSTRATED}'></div>", "demonstrated path"),
    (
        f"<div style='width:1.6em;height:50%;border:2px solid {palette.GOAL};border-radius:50%'></div>",
        f"{SUCCESS_M:.0f} m around the goal",
    ),
)
"""What is drawn on the ground: a sample of it as HTML, and what it is."""
LEFT_PX, RIGHT_PX = 330, 340


def _enlarged(image: Any) -> Any:
    """The drone's picture (H, W, 3) with larger pixels, so that it fills its panel and stays sharp."""
    return image.repeat(IMAGE_SCALE, 0).repeat(IMAGE_SCALE, 1)


def _index(title: str) -> int:
    """The index, from 0, of a numbered menu entry such as "3. stone well"; -1 for an entry without a number."""
    number = title.partition(".")[0]
    return int(number) - 1 if number.isdigit() else -1


def _escaped(text: str) -> str:
    """Plain text as Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", text)


def _segment_titles(field: FieldChoice) -> list[str]:
    """The segments' numbers and instructions, shortened for a menu."""
    return [
        f"{number}. {textwrap.shorten(segment.task.instruction, 60, placeholder=' …')}"
        for number, segment in enumerate(field.segments, start=1)
    ]


def _legend_html() -> str:
    box = f"width:3em;height:1.3em;margin-right:0.7em;background:{GRASS}"
    centred = "display:flex;align-items:center"
    rows = "".join(
        f"<div style='{centred};margin-top:2px'><div style='{centred};justify-content:center;{box}'>{sample}</div>"
        f"{label}</div>"
        for sample, label in LEGEND
    )
    return f"<div style='padding:0 0.75em 0.5em;font-size:0.85em'>{rows}</div>"


def _set(handle: Any, value: Any) -> None:
    """Set the value of a widget, which viser's types do not allow."""
    handle.value = value


class Page:
    """The widgets of one visitor; `bind` connects them with a session."""

    def __init__(self, client: viser.ClientHandle, pilots: Sequence[str], has_corpus: bool) -> None:
        self._client, self._has_corpus = client, has_corpus
        self._field: FieldChoice | None = None
        self._layout: Layout | None = None
        gui = client.gui
        gui.main_panel.dock_left()
        gui.main_panel.set_width(LEFT_PX)
        self.field_view = FieldView3D(client)
        self._add_flight_controls(gui)
        with gui.add_folder("Pilot and field"):
            self._add_setup_controls(gui, pilots)
        with gui.add_folder("View"):
            self._camera = gui.add_dropdown("Camera", get_args(CameraMode))
            self._speed = gui.add_dropdown("Speed", tuple(SPEEDS), initial_value="2 x")
            self._names = gui.add_checkbox("Names", True, hint="Show the names of the landmarks.")
            gui.add_html(_legend_html())
        with gui.add_folder("Landmarks", expand_by_default=False):
            self._add_landmark_controls(gui)
        with gui.add_folder("Share and save", expand_by_default=False):
            self._command = gui.add_html("")
            self._save_field = gui.add_button("Field (.json)", icon=viser.Icon.DOWNLOAD)
            self._save_flight = gui.add_button_group("Flight", (".png", ".mp4", ".rrd"))
        self._add_pilot_panel(gui)
        self.field_view.show_camera("free")

    def _add_flight_controls(self, gui: viser.GuiApi) -> None:
        self._instruction = gui.add_text(
            "Instruction", "", multiline=True, hint=f"What the drone should do; at most {MAX_CHARACTERS:,} characters."
        )
        self._fly = gui.add_button(
            "Fly", icon=viser.Icon.PLANE_DEPARTURE, color="green", hint="Start where the segment starts."
        )
        self._continue = gui.add_button(
            "Continue from here",
            icon=viser.Icon.PLANE,
            visible=False,
            hint="Type another instruction: the drone follows it from where it is, and remembers what it has seen.",
        )
        self._stop = gui.add_button("Stop", icon=viser.Icon.HAND_STOP, color="red", visible=False)
        self._status = gui.add_markdown("")
        self._warning = gui.add_markdown("", visible=False)
        self._step = gui.add_slider("Step", 0, 1, 1, 0, disabled=True, hint="Go back to any step of the flight.")
        self._replay = gui.add_button("Play again", icon=viser.Icon.PLAYER_PLAY, visible=False)

    def _add_setup_controls(self, gui: viser.GuiApi, pilots: Sequence[str]) -> None:
        self._pilot = gui.add_dropdown(
            "Pilot", tuple(pilots), hint="The oracle follows the demonstration; the others read the instruction."
        )
        self._segment = gui.add_dropdown("Segment", ("",), hint="Instructions for this field, with demonstrations.")
        self._field_number = gui.add_number(
            "Field", 0, min=0, max=MAX_FIELD_NUMBER, step=1, hint="Every number is another field."
        )
        self._go_to_field = gui.add_button("Go to this field", icon=viser.Icon.MAP_PIN)
        self._random_field = gui.add_button("Random field", icon=viser.Icon.DICE)
        self._segment_id = gui.add_text(
            "Segment id",
            "0-0",
            visible=self._has_corpus,
            hint="Environment and place of a corpus segment, as in 12-3.",
        )
        self._go_to_segment = gui.add_button("Go to this segment", icon=viser.Icon.BOOK, visible=self._has_corpus)
        self._random_segment = gui.add_button("Random segment", icon=viser.Icon.DICE, visible=self._has_corpus)

    def _add_landmark_controls(self, gui: viser.GuiApi) -> None:
        gui.add_markdown("Drag landmarks in the field, or add and remove them here.")
        self._new_landmark = gui.add_dropdown("New", tuple(LANDMARKS_BY_NOUN))
        self._add = gui.add_button("Add", icon=viser.Icon.PLUS)
        self._landmark = gui.add_dropdown("In the field", ("",))
        self._remove = gui.add_button("Remove", icon=viser.Icon.TRASH)
        self._restore = gui.add_button("Undo all changes", icon=viser.Icon.ARROW_BACK_UP)

    def _add_pilot_panel(self, gui: viser.GuiApi) -> None:
        panel = gui.add_panel()
        with panel.add_tab("Camera and maps", viser.Icon.EYE):
            self._image = gui.add_image(np.full((72 * IMAGE_SCALE, 128 * IMAGE_SCALE, 3), 230, np.uint8), format="jpeg")
            self._sheet = gui.add_image(
                np.full((8, 8, 3), 255, np.uint8), format="jpeg", jpeg_quality=88, visible=False
            )
            self._stop_chart = self._add_chart(gui, "stop probability", palette.STOP_PROBABILITY, 1.08)
            self._speed_chart = self._add_chart(gui, "speed (m/s)", palette.SPEED, 3.2)
        panel.dock_right()
        panel.set_width(RIGHT_PX)

    def bind(self, session: Session) -> None:
        """Tell this session what the visitor does from now on."""
        self.field_view.on_drag = session.move_landmark
        self._fly.on_click(lambda _: session.fly(self._instruction.value))
        self._continue.on_click(lambda _: session.continue_flight(self._instruction.value))
        self._stop.on_click(lambda _: session.stop())
        self._replay.on_click(lambda _: session.replay())
        self._go_to_field.on_click(lambda _: session.go_to_field(int(self._field_number.value)))
        self._random_field.on_click(lambda _: session.go_to_field(random.randrange(MAX_FIELD_NUMBER + 1)))
        self._go_to_segment.on_click(lambda _: session.go_to_segment(self._segment_id.value))
        self._random_segment.on_click(lambda _: session.go_to_segment(""))
        self._add.on_click(lambda _: session.add_landmark(LANDMARKS_BY_NOUN[self._new_landmark.value]))
        self._remove.on_click(lambda _: session.remove_landmark(_index(self._landmark.value)))
        self._restore.on_click(lambda _: session.restore_field())
        self._save_field.on_click(lambda _: session.save_field())
        self._save_flight.on_click(lambda event: session.save_flight(event.target.value))
        self._camera.on_update(lambda _: self.field_view.show_camera(self._camera.value))
        self._names.on_update(lambda _: self.field_view.show_names(self._names.value))

        # The page also changes these itself, during flights and with the setup; only the visitor's changes count.
        def by_visitor(act: Callable[[], None]) -> Callable[[viser.GuiEvent[Any]], None]:
            return lambda event: act() if event.client is not None else None

        self._instruction.on_update(by_visitor(lambda: session.set_instruction(self._instruction.value)))
        self._step.on_update(by_visitor(lambda: session.show_again(int(self._step.value))))
        self._speed.on_update(by_visitor(lambda: session.set_speed(SPEEDS[self._speed.value])))
        self._pilot.on_update(by_visitor(lambda: session.choose_pilot(self._pilot.value)))
        self._segment.on_update(by_visitor(lambda: session.choose_segment(_index(self._segment.value))))

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

    def show_menus(self, setup: FlightSetup) -> None:
        """Show pilot and segment in their menus."""
        titles = _segment_titles(setup.field)
        if self._field is not setup.field:
            self._field = setup.field
            self._segment.options = tuple(titles)
        _set(self._segment, titles[setup.segment_index])
        _set(self._pilot, setup.pilot)

    def show_setup(self, setup: FlightSetup) -> None:
        """Show the field, the menus and the instruction."""
        self.show_menus(setup)
        if self._layout is not setup.layout:
            self._layout = setup.layout
            self.field_view.show_field(setup.layout)
            nouns = [LANDMARK_CLASSES[landmark.name].noun for landmark in setup.layout.landmarks]
            self._landmark.options = tuple(f"{number}. {noun}" for number, noun in enumerate(nouns, start=1)) or ("",)
        if setup.instruction != clean_instruction(self._instruction.value):
            _set(self._instruction, setup.instruction)
        if setup.field.number is not None:
            _set(self._field_number, setup.field.number)
        if setup.field.is_from_corpus:
            _set(self._segment_id, setup.segment.id)
        self.field_view.show_setup(setup)

    def show_state(self, state: State, num_positions: int) -> None:
        """Show what can be done now; num_positions is how many there are to replay."""
        self._fly.visible, self._stop.visible = state != "flying", state == "flying"
        self._pilot.disabled = self._segment.disabled = state == "flying"
        self._replay.visible = self._continue.visible = state == "replaying"
        self._step.disabled = state != "replaying"
        self._warning.visible = False
        if state != "replaying":
            _set(self._step, 0)
            self._step.max = 1
        else:
            self._step.max = max(num_positions - 1, 1)
            _set(self._step, num_positions - 1)

    def show_step(self, shown: ShownStep, moves_slider: bool = True) -> None:
        """Show a step of the flight on the whole page."""
        with self._client.atomic():
            self.field_view.show_pose(shown.pose_world)
            self.field_view.show_path(shown.flown)
            self.field_view.show_predictions(shown.predictions)
            self.field_view.show_image(shown.moment.image)
            self._image.image = _enlarged(shown.moment.image)
            self._sheet.image, self._sheet.visible = shown.sheet, True
            if moves_slider:
                self._step.max = max(self._step.max, shown.index, 1)
                _set(self._step, shown.index)
            seconds = shown.seconds.astype(np.float64)
            self._speed_chart.data = (seconds, shown.speeds.astype(np.float64))
            self._stop_chart.data = (seconds, shown.stop_probabilities.astype(np.float64))

    def move_drone(self, pose_world: Floats) -> None:
        """Move the drone to a pose (6,), field frame."""
        self.field_view.show_pose(pose_world)

    def show_status(self, text: str) -> None:
        """Show a line about what is going on, Markdown."""
        self._status.content = text
        self._warning.visible = False

    def show_warning(self, text: str) -> None:
        """Show a line about what cannot be done, plain text."""
        self._warning.content = f"**⚠** {_escaped(text)}"
        self._warning.visible = True

    def show_command(self, command: str, needs_file: bool) -> None:
        """Show the command that repeats the flight, and a button that copies it."""
        note = "<p>It reads the field from a file: download it with the button below.</p>" if needs_file else ""
        self._command.content = (
            "<div style='padding:0 0.75em;font-size:0.85em'><p>This command repeats the flight exactly:</p>"
            "<code style='display:block;padding:0.5em;background:#eef;white-space:pre-wrap'>"
            f"{html.escape(command)}</code>"
            f'<button onclick="{COPY}" style="margin-top:0.4em">Copy</button>{note}</div>'
        )

    def send_file(self, name: str, content: bytes) -> None:
        """Send a file to download."""
        self._client.send_file_download(name, content, save_immediately=True)
