"""What can be set up to be flown: segments as they are, instructions of one's own, rearranged fields."""

import math
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from pvn.app.demo.examples import NUM_EXAMPLES, example_instructions
from pvn.app.demo.flight_setup import (
    MAX_FIELD_NUMBER,
    add_landmark,
    change_instruction,
    corpus_field,
    file_field,
    first_segment,
    move_landmark,
    open_link,
    random_field,
    remove_landmark,
    segment_setup,
    turn_landmark,
    write_link,
)
from pvn.app.demo.shown_flight import touch_sentence, touched_landmarks
from pvn.evaluation.pilots import load_pilot
from pvn.rollout.flight import fly
from pvn.simulator.simulator import simulator_for
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.lani import write_layout
from pvn.world.layout import FENCES, FIELD_SIZE, fence_distance
from pvn.world.shapes import solid_extent
from pvn.world.task import Task


def test_only_an_unchanged_segment_has_a_demonstration(field):
    setup = segment_setup(field, 1)
    segment = field.segments[1]
    assert setup.demonstrated is segment.demonstration.path and setup.task is segment.task
    assert change_instruction(setup, f"  {setup.instruction} ").demonstrated is not None
    typed = change_instruction(setup, "go to the apple")
    assert typed.demonstrated is None and typed.task.start == setup.task.start
    landmark = setup.layout.landmarks[0]
    moved = move_landmark(setup, 0, landmark.x + 1, landmark.y)
    assert moved.is_edited and moved.demonstrated is None
    assert moved.layout.landmarks[0].x == pytest.approx(landmark.x + 1)
    assert not move_landmark(moved, 0, landmark.x, landmark.y).is_edited
    assert change_instruction(moved, "go home").unchanged().task is segment.task


def test_landmarks_are_added_where_there_is_room_and_stay_inside_the_fences(field):
    setup = segment_setup(field, 0)
    count = len(setup.layout.landmarks)
    more = add_landmark(setup, "Windmill")
    assert len(more.layout.landmarks) == count + 1 and more.layout.landmarks[-1].name == "Windmill"
    assert remove_landmark(more, count).layout == setup.layout
    assert move_landmark(setup, 0, -40, 3).layout.landmarks[0].x == 1.0
    other = setup.layout.landmarks[1]
    with pytest.raises(ValueError, match="overlaps"):
        move_landmark(setup, 0, other.x, other.y)
    for gone in (-1, count):
        with pytest.raises(ValueError, match="not in the field any more"):
            remove_landmark(setup, gone)
    with pytest.raises(ValueError, match="no room left|too many landmarks"):
        for _ in range(60):
            setup = add_landmark(setup, "BigHouse")


def test_a_landmark_is_added_ahead_of_the_drone(field):
    setup = segment_setup(field, 0).starting_at((FIELD_SIZE / 2, 10.0, math.pi / 2))
    while setup.layout.landmarks:
        setup = remove_landmark(setup, 0)
    (mark,) = add_landmark(setup, "Windmill").layout.landmarks
    assert (mark.x, mark.y) == pytest.approx((FIELD_SIZE / 2, 18.0), abs=0.1)


def test_the_command_says_what_where_and_who(field):
    setup = segment_setup(field, 1)
    assert setup.command() == "pvn fly --field 3 --segment 2"
    assert segment_setup(field, 0, "gsmn").command() == "pvn fly --field 3 --segment 1 --agent gsmn"
    typed = change_instruction(setup, "go to the gorilla's left")
    words = shlex.split(typed.command("my runs/pvn/agent.safetensors", "cuda"))
    assert words[2] == "go to the gorilla's left" and words[3:7] == ["--field", "3", "--segment", "2"]
    assert words[7:] == ["--agent", "my runs/pvn/agent.safetensors", "--device", "cuda"]
    words = shlex.split(add_landmark(typed, "Windmill").command())
    assert words[3:6] == ["--field", "field.json", "--start"]
    assert tuple(map(float, words[6:])) == setup.task.start


def test_a_segment_of_a_corpus_brings_its_whole_field(meadow):
    chosen = meadow["train"][1]
    field, index = corpus_field(meadow, "my corpus", f" {chosen.id} ")
    assert field.segments[index] is chosen
    assert {segment.environment for segment in field.segments} == {chosen.environment}
    assert segment_setup(field, index).command() == f"pvn fly --corpus 'my corpus' --segment {chosen.id}"
    with pytest.raises(ValueError, match="segment: got '9-9999'"):
        corpus_field(meadow, "my corpus", "9-9999")


def test_a_field_is_read_from_a_file_and_gets_a_tour(field, tmp_path):
    path = tmp_path / "random_config_5.json"
    write_layout(field.segments[0].task.layout, path)
    chosen = file_field(path)
    assert len(chosen.segments) == 5 and chosen.segments[0].task.layout == field.segments[0].task.layout
    assert segment_setup(chosen, 4).command() == f"pvn fly --field {path} --segment 5"
    with pytest.raises(FileNotFoundError):
        file_field(Path("nowhere.json"))


def test_random_fields_have_numbers_from_0_up_to_a_limit():
    for number in (-1, MAX_FIELD_NUMBER + 1):
        with pytest.raises(ValueError, match=f"expected 0 to {MAX_FIELD_NUMBER}"):
            random_field(number)


@pytest.mark.long
def test_the_segment_that_is_shown_first_is_a_plain_one_if_there_is_one():
    for number in range(20):
        field = random_field(number)
        shown, *_ = (words := [segment.task.instruction for segment in field.segments])[first_segment(field) :]
        plain = [text for text in words if re.match(r"(go|fly) [^.]*$", text) and 6 <= len(text.split()) <= 20]
        assert not plain or (6 <= len(shown.split()) <= 20 and not shown.endswith(".")), shown


@pytest.mark.parametrize("number", [0, 3, 12, 40])
def test_eight_examples_name_what_stands_in_the_field_in_words_that_the_pilot_knows(number, pilots):
    setup = segment_setup(random_field(number), 0)
    nouns = {LANDMARK_CLASSES[mark.name].noun for mark in setup.layout.landmarks}
    vocabulary = pilots["pvn-plus"].agent.vocabulary
    for pose in (setup.start, (1.0, 1.0, 2.0), (FIELD_SIZE - 1, FIELD_SIZE / 2, 0.0)):
        examples = example_instructions(setup.layout, pose)
        assert len(examples) == len(set(examples)) == NUM_EXAMPLES
        assert sum(any(noun in words for noun in nouns) for words in examples) >= 2
        assert not any(vocabulary.unknown_words(words) for words in examples)


def test_the_side_of_an_example_is_where_the_landmark_is(field):
    """The drone stands in the middle of nothing but one landmark, to its left, then to its right."""
    setup = segment_setup(field, 0)
    for _ in setup.layout.landmarks[1:]:
        setup = remove_landmark(setup, len(setup.layout.landmarks) - 1)
    (mark,) = setup.layout.landmarks
    noun = LANDMARK_CLASSES[mark.name].noun
    for y, side in ((mark.y - 10, "left"), (mark.y + 10, "right")):
        assert f"turn {side} and go to the {noun}" in example_instructions(setup.layout, (mark.x, y, 0.0))


def test_an_example_turns_towards_the_fence_that_it_names(field):
    """The drone stands in an empty field near the south-west corner; the headings are in between two fences."""
    setup = segment_setup(field, 0)
    while setup.layout.landmarks:
        setup = remove_landmark(setup, 0)
    ahead = {0.1: "red", 1.4: "blue", 3.0: "yellow", -1.4: "white"}
    for yaw, colour in ahead.items():
        examples = example_instructions(setup.layout, (10.0, 10.0, yaw))
        assert examples[0] == f"fly to the {colour} fence"
        left = min(FENCES, key=lambda name: abs(math.remainder(FENCES[name] - yaw - math.pi / 2, 2 * math.pi)))
        assert examples[1] == f"turn left and fly to the {left} fence"


def test_only_what_reaches_the_drone_is_touched(field):
    setup = add_landmark(segment_setup(field, 0), "Windmill")
    marks = setup.layout.landmarks
    through = np.array([[marks[-1].x - 6, marks[-1].y], [marks[-1].x + 6, marks[-1].y]])
    index = len(marks) - 1
    assert touched_landmarks(setup.layout, through)[index] == "through"
    reach = marks[-1].scale * solid_extent("Windmill")
    brushed = through + np.array([0.0, reach + 0.3])
    assert touched_landmarks(setup.layout, brushed)[index] == "brushed"
    assert index not in touched_landmarks(setup.layout, through + np.array([0.0, reach + 0.7]))
    low = next(place for place, mark in enumerate(marks) if mark.name == "Barrel")
    over = np.array([[marks[low].x - 3, marks[low].y], [marks[low].x + 3, marks[low].y]])
    assert low not in touched_landmarks(setup.layout, over), "it flies over a barrel"
    words = touch_sentence(setup.layout, {index: "through", low: "brushed"})
    assert words == f"It flew through the {LANDMARK_CLASSES['Windmill'].noun} and brushed the rusty barrel."


def open_here(link, field):
    return open_link(link, field, ("pvn-plus", "gsmn"), random_field)


def test_a_link_carries_field_start_landmarks_agent_and_what_was_said(field):
    setup = turn_landmark(move_landmark(segment_setup(field, 2, "gsmn"), 0, 12.0, 41.0), 1, 0.5)
    setup = setup.starting_at((3.0, 4.5, 0.25))
    opened, said = open_here(write_link(setup, ("go to the well & stop", "don't")), random_field(9))
    assert opened.task.start == (3.0, 4.5, 0.25) and opened.pilot == "gsmn"
    assert opened.layout == setup.layout and opened.field is field and said == ("go to the well & stop", "don't")
    plain, said = open_here(write_link(segment_setup(field, 3), ()), random_field(9))
    assert plain.task is field.segments[3].task and said == ()
    assert open_here("", field)[0].segment_index == first_segment(field)


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("field=x", "got field=x, expected a whole number"),
        ("field=99999999", "expected 0 to 999999"),
        ("segment=9", "got segment=9, expected 1 to 5"),
        ("agent=hal", "got agent=hal, expected one of pvn-plus, gsmn"),
        ("start=1,2", "got start=1,2, expected 3 numbers"),
        ("start=1,2,nan", "expected 3 numbers"),
        ("landmarks=Barrel,1,2", "expected 4 numbers"),
        ("landmarks=Moon,1,2,3,4", "Moon"),
        ("say=" + "a" * 40_000, "expected at most 30,000"),
    ],
)
def test_a_broken_link_is_refused_in_words(field, link, message):
    with pytest.raises(ValueError, match=message):
        open_here(link, field)


def test_a_start_of_ones_own_is_inside_the_fences_and_in_the_command(field):
    setup = segment_setup(field, 1).starting_at((FIELD_SIZE + 10, -3.0, 7.0))
    setup = change_instruction(setup, "go to the barrel")
    assert setup.start == (FIELD_SIZE, 0.0, pytest.approx(7.0 - 2 * math.pi)) and setup.demonstrated is None
    words = shlex.split(setup.command())
    assert words[3:6] == ["--field", "3", "--start"] and tuple(map(float, words[6:])) == setup.start
    assert setup.start_again().start == field.segments[1].task.start


def _goal_of(words, layout):
    """Which landmark or fence an example ends at, if it says so: ("landmark", noun) or ("fence", colour)."""
    if found := re.search(r"fly to the (\w+) fence$", words):
        return "fence", found[1]
    nouns = "|".join(sorted((LANDMARK_CLASSES[mark.name].noun for mark in layout.landmarks), key=len, reverse=True))
    if found := re.search(rf"(?:go|fly|then) to the ({nouns})(?: and stop .*)?$", words):
        return "landmark", found[1]
    return None


@pytest.mark.slow
def test_the_examples_are_followed():
    """Those in eight fields that name what they end at, flown by the agent that flies by default."""
    pilot, reached = load_pilot("pvn-plus"), {}
    for number in range(8):
        setup = segment_setup(random_field(number), first_segment(random_field(number)))
        tasks = [
            Task(setup.layout, setup.start, words)
            for words in example_instructions(setup.layout, setup.start)
            if _goal_of(words, setup.layout) is not None
        ]
        log = fly(simulator_for(tasks, config=pilot.config), tasks, pilot.policy)
        for task, (x, y, *_) in zip(tasks, log.end_world.tolist(), strict=True):
            kind, name = _goal_of(task.instruction, setup.layout)
            if kind == "fence":
                away = float(fence_distance(np.array([x, y]), name))
            else:
                mark = next(mark for mark in setup.layout.landmarks if LANDMARK_CLASSES[mark.name].noun == name)
                away = math.dist((x, y), (mark.x, mark.y)) - mark.radius
            reached[number, task.instruction] = abs(away) < 5
    missed = [words for words, is_reached in reached.items() if not is_reached]
    assert len(reached) > 30 and len(missed) <= 3, missed  # one of 41 when this was written
