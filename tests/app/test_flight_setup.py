"""What can be set up to be flown: segments as they are, instructions of one's own, rearranged fields."""

import shlex
from pathlib import Path

import pytest

from pvn.app.demo.flight_setup import (
    MAX_REQUESTS,
    REQUEST_SECONDS,
    RateLimit,
    add_landmark,
    change_instruction,
    corpus_field,
    file_field,
    move_landmark,
    random_field,
    remove_landmark,
    segment_setup,
)
from pvn.world.lani import write_layout


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
    with pytest.raises(ValueError, match="no room left|too many landmarks"):
        for _ in range(60):
            setup = add_landmark(setup, "BigHouse")


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


@pytest.mark.parametrize("number", [-1, 1_000_000])
def test_fields_have_numbers_up_to_a_million(number):
    with pytest.raises(ValueError, match="expected 0 to 999999"):
        random_field(number)


def test_requests_are_refused_only_while_there_were_too_many():
    limit = RateLimit()
    for second in range(MAX_REQUESTS):
        limit.check(float(second))
    with pytest.raises(ValueError, match="wait a moment"):
        limit.check(MAX_REQUESTS + 0.5)
    limit.check(REQUEST_SECONDS + 0.5)
