"""Sessions without a browser: flights, replays, files and limits of one visitor, and of several at once."""

import gc
import json
import re
import shlex
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pvn.app.demo.flight_setup import MAX_REQUESTS, random_field
from pvn.app.demo.link import open_link
from pvn.app.demo.pictures import decode
from pvn.app.demo.shown_flight import ShownFlight
from pvn.app.demo.slots import Slots
from pvn.cli import main
from pvn.corpus.store import write_corpus
from pvn.rollout.flight import fly
from pvn.viz.flight_record import fly_and_record, interpolate_pose

CRAWL = 0.001
"""At this speed a flight takes hours, unless it is stopped."""


@pytest.mark.parametrize(
    ("pilot", "text", "message"),
    [
        ("pvn-plus", " ... ", "which has no words"),
        ("pvn-plus", "大象", "not a word I know"),
        ("pvn-plus", "of the", "nothing in it says what to do"),
        ("pvn-plus", "go " * 101, "got 101 words"),
        ("pvn-plus", "go " + "o" * 1000, "1,000 characters; make it shorter"),
        ("pvn-plus", "go " * 10**6, "make it shorter"),
        ("oracle", "go to the apple", "does not read instructions"),
    ],
)
def test_what_no_pilot_can_fly_is_refused_with_advice(visit, pilot, text, message):
    visitor = visit()
    visitor.session.choose_pilot(pilot)
    visitor.session.fly(text)
    visitor.settle()
    assert message in visitor.page.warnings[-1]
    assert visitor.session.state == "choosing" and not visitor.page.steps


@pytest.mark.long
def test_a_flight_is_shown_step_by_step_and_its_outcome_in_words(visit):
    visitor = visit()
    page = visitor.page
    visitor.fly_to_the_end()
    assert visitor.session.state == page.state == "replaying"
    assert [shown.index for shown in page.steps[:-1]] == list(range(page.num_positions))
    assert f"Step 3: “{visitor.session.flights[-1].setup.instruction}”" in page.statuses
    near, goal = r"\d+ m from the [a-z ]+", r"\d+\.\d m from the goal \((reached|not within 5 m, missed)\)"
    ended = rf"(Stopped {near}, {goal}, after \d+ steps|Never stopped in \d+ steps; {near}, {goal})\."
    assert re.search(ended, page.statuses[-1]), page.statuses[-1]
    last = page.steps[-1]
    assert len(last.flown) == page.num_positions and len(last.speeds) == page.num_positions - 1
    assert np.isfinite(last.stop_probabilities).all()
    predictions = {shown.kept.predictions for shown in page.steps}
    assert len(predictions) == (page.num_positions - 2) // 3 + 1, "the prediction changes every three steps"
    visitor.session.show_again(2)
    visitor.settle()
    assert page.steps[-1].index == 2 and len(page.steps[-1].flown) == 3
    visitor.session.show_again(999)
    visitor.settle()
    assert page.steps[-1].index == 2


def test_fly_returns_before_the_flight_begins(visit, shared, wait_until):
    """Flights run in threads of their own: on a busy computer they wait, but the page never does."""
    free = threading.Event()
    with ThreadPoolExecutor(1) as one_thread:
        one_thread.submit(free.wait)
        visitor = visit(CRAWL, replace(shared, flight_threads=one_thread))
        visitor.session.fly("go to the gorilla")
        visitor.settle()
        assert visitor.session.state == "flying" and not visitor.page.steps
        free.set()
        wait_until(lambda: visitor.page.steps, "the first step")
        visitor.session.stop()
        visitor.land()
    # docs/demo.md reports how long it takes, now that everything is warm.
    visitor = visit(CRAWL)
    pressed = time.perf_counter()
    visitor.session.fly("go to the gorilla")
    returned = time.perf_counter()
    first_step = wait_until(lambda: visitor.page.first_step_at, "the first step")
    visitor.session.close()
    sys.stdout.write(f"Fly returns after {1e3 * (returned - pressed):.1f} ms, ")
    sys.stdout.write(f"the first step is sent after {1e3 * (first_step - pressed):.0f} ms\n")


@pytest.mark.long
def test_each_instruction_starts_where_the_drone_is_until_start_again_puts_it_back(visit, undrawn, tmp_path, capsys):
    visitor = visit()
    session, page = visitor.session, visitor.page
    begun = session.setup.start
    visitor.fly_to_the_end("go to the gorilla")
    first, end = session.flights[-1].record, page.steps[-1].pose_world
    for words in ("turn left", "fly straight ahead"):
        visitor.fly_to_the_end(words)
        moment = session.flights[-1].record.moments[0]
        assert np.allclose(moment.pose_world[:2], end[:2], atol=1e-3) and np.isclose(moment.pose_world[5], end[5])
        assert moment.maps.is_known.sum() > first.moments[0].maps.is_known.sum(), "it knows what it has seen"
        end = page.steps[-1].pose_world
    assert [said for said, _ in page.flights] == ["go to the gorilla", "turn left", "fly straight ahead"]
    assert page.shown == 2 and all(words for _, words in page.flights)
    words = shlex.split(page.commands[-1])
    assert words[2:5] == ["go to the gorilla", "turn left", "fly straight ahead"]
    main([*words[1:], "--json", "--out", str(tmp_path)])
    repeated = json.loads(capsys.readouterr().out)
    assert repeated[-1]["end"] == end[[0, 1, 5]].tolist(), "the command repeats all of it exactly"
    session.start_again()
    visitor.settle()
    assert session.setup.start == begun and len(page.flights) == 3, "the list stays"
    visitor.fly_to_the_end("go to the gorilla")
    assert np.array_equal(session.flights[-1].record.flown_world, first.flown_world)


@pytest.mark.long
def test_every_flight_of_the_list_can_be_replayed_and_only_the_last_keeps_its_maps(visit, wait_until):
    visitor = visit()
    session, page = visitor.session, visitor.page
    for words in ("go to the gorilla", "turn left"):
        visitor.fly_to_the_end(words)
    assert [flight.record is None for flight in session.flights] == [True, False]
    assert session.flights[1].setup.continues.carried is None, "maps take megabytes"
    count, end = len(page.steps), session.flights[0].num_positions
    session.replay(0)
    wait_until(lambda: len(page.steps) >= count + end, "the replay of the first flight")
    again = [shown.pose_world.tolist() for shown in page.steps[count : count + end]]
    assert again == [session.flights[0].pose(index).tolist() for index in range(end)]
    assert page.shown == 0 and page.fields[-1].instruction == "go to the gorilla"
    assert page.statuses[-1].endswith("What you type next starts after the last flight.")
    session.replay(7)  # there is none
    session.replay(-1)
    assert page.shown == 0


@pytest.mark.long
def test_after_stop_the_next_instruction_starts_where_the_drone_hangs(visit, wait_until):
    visitor = visit(20.0)
    session, page = visitor.session, visitor.page
    visitor.take_off("go to the gorilla")
    wait_until(lambda: len(page.steps) > 3, "some steps")
    session.stop()
    visitor.land()
    place = page.steps[-1].pose_world[[0, 1, 5]]
    assert "You ended the flight" in page.statuses[-1] and session.flights[-1].record is None
    assert np.allclose(session.setup.start, place) and session.setup.continues is None
    session.set_speed(0.0)
    visitor.fly_to_the_end("turn left")
    assert np.allclose(session.flights[-1].pose(0)[:2], place[:2], atol=1e-3)
    assert "--start" in page.commands[-1]


@pytest.mark.long
def test_what_is_moved_or_chosen_leaves_the_drone_where_it_is(visit):
    visitor = visit()
    session, page = visitor.session, visitor.page
    session.choose_pilot("oracle")
    visitor.fly_to_the_end()
    end = session.setup.start
    assert session.setup.continues is not None
    session.turn_landmark(0, 1.25)
    session.choose_pilot("pvn-plus")
    visitor.settle()
    assert session.setup.start == pytest.approx(end) and session.setup.continues is None
    assert session.setup.layout.landmarks[0].yaw == 1.25 and len(page.flights) == 1
    session.move_start(12.0, 9.0)
    session.turn_start(4.0)
    visitor.settle()
    assert session.setup.start == pytest.approx((12.0, 9.0, 4.0 - 2 * np.pi))
    assert page.view.startswith(b"\xff\xd8"), "what it sees from there, as a JPEG file"
    session.go_to_field(4)
    visitor.settle()
    assert not page.flights, "what was flown in another field cannot be shown in this one"


def test_unknown_words_are_marked_as_they_are_typed(visit, wait_until):
    visitor = visit()
    for text in ("fly to the zyzz", "fly to the zyzzyva"):
        visitor.session.note_typed(text)
    wait_until(lambda: visitor.page.unknown == ["zyzzyva"], "the mark")
    visitor.session.note_typed("fly to the gorilla")
    wait_until(lambda: visitor.page.unknown == [], "that the mark goes")
    visitor.session.note_typed("fly to the shop")
    wait_until(lambda: visitor.page.read_as == {"shop": "stop"}, "what the word is read as")
    visitor.session.choose_pilot("oracle")
    visitor.session.note_typed("fly to the shop")
    wait_until(lambda: visitor.page.read_as == {}, "that a pilot that does not read reads nothing as anything")


@pytest.mark.long
def test_a_link_flies_the_same(visit, shared, wait_until):
    visitor = visit()
    session, page = visitor.session, visitor.page
    session.move_landmark(1, 12.0, 41.0)
    session.turn_start(0.3)
    for words in ("go to the gorilla's left & stop", "turn left"):
        visitor.fly_to_the_end(words)
    end, link = page.steps[-1].pose_world, page.links[-1]
    opened = open_link(link, random_field(0), tuple(shared.pilots), random_field)
    assert opened.instructions == ("go to the gorilla's left & stop", "turn left")
    assert opened.setup.layout == session.setup.layout
    other = visit()
    other.session._change_setup(opened.setup)
    other.session.fly_all(opened.instructions)
    wait_until(lambda: len(other.page.flights) == 2, "the second flight's end")
    other.settle()
    assert [said for said, _ in other.page.flights] == list(opened.instructions)
    assert np.array_equal(other.page.steps[-1].pose_world, end) and other.page.links[-1] == link


def test_those_who_wait_are_told_their_place_and_fly_in_the_order_in_which_they_came(wait_until):
    slots, told, flown, called_off = Slots(1), {who: [] for who in "abcd"}, [], set()
    first: list[int] = []
    slots.acquire(lambda: False, first.append)
    assert first == [], "nobody is before the first"

    def wait(who):
        try:
            slots.acquire(lambda: who in called_off, told[who].append)
        except InterruptedError:
            return
        flown.append(who)

    with ThreadPoolExecutor(4) as threads:
        for place, who in enumerate("abcd", start=1):
            threads.submit(wait, who)
            wait_until(lambda who=who, place=place: told[who] == [place], "that it is told its place")
        called_off.add("b")
        wait_until(lambda: (told["c"], told["d"]) == ([3, 2], [4, 3]), "that one less is before the last two")
        slots.release()
        wait_until(lambda: flown == ["a"] and told["c"] == [3, 2, 1], "that the next one is the first in line")
        for count in (2, 3):
            slots.release()
            wait_until(lambda count=count: len(flown) == count, "the next one's turn")
    assert flown == ["a", "c", "d"]


@pytest.mark.long
def test_more_flights_than_slots_wait_for_their_turn(visit, shared, wait_until):
    alone = replace(shared, slots=Slots(1))
    first, second = visit(CRAWL, alone), visit(0.0, alone)
    first.take_off()
    second.page.landed.clear()
    second.session.fly("go to the gorilla")
    wait_until(
        lambda: any("you are number 1 in line" in text for text in second.page.statuses), "that it is told to wait"
    )
    assert second.session.state == "flying" and not second.page.steps
    first.session.stop()
    second.land()
    assert second.page.steps
    third = visit(0.0, alone)
    alone.slots.acquire(lambda: False, lambda place: None)
    third.settle()
    third.page.landed.clear()
    third.session.fly("go to the gorilla")
    wait_until(
        lambda: any("you are number 1 in line" in text for text in third.page.statuses), "that it is told to wait"
    )
    third.session.stop()
    third.land()
    third.settle()
    assert third.session.state == "choosing" and "called off" in third.page.statuses[-1]


@pytest.mark.long
def test_unknown_words_are_named_and_an_own_instruction_has_no_goal(visit):
    visitor = visit()
    assert visitor.page.setup.demonstrated is not None
    visitor.fly_to_the_end("fly to the zyzzyva shop")
    assert "'zyzzyva' is not a word I know; 'shop' is read as 'stop'." in visitor.page.statuses[-1]
    assert "the goal" not in visitor.page.statuses[-1]
    assert visitor.page.fields[-1].demonstrated is None


@pytest.mark.long
@pytest.mark.parametrize("pilot", ["gsmn", "chaplot", "oracle"])
def test_other_pilots_fly_without_predictions(visit, pilot):
    visitor = visit()
    visitor.session.choose_pilot(pilot)
    visitor.fly_to_the_end()
    assert not visitor.page.warnings and visitor.page.steps[-1].kept.predictions is None
    image = decode(visitor.page.steps[0].kept.image)
    assert image.std() > 10, "there is a picture, even if the pilot does not look at it"
    assert f"--agent {pilot}" in visitor.page.commands[-1]


@pytest.mark.long
def test_there_is_one_flight_at_a_time_and_stop_ends_it(visit):
    visitor = visit(CRAWL)
    session, page = visitor.session, visitor.page
    visitor.take_off()
    for request in (lambda: session.fly(session.setup.instruction), lambda: session.add_landmark("Apple")):
        page.warnings.clear()
        request()
        visitor.settle()
        assert "press Stop" in page.warnings[-1]
    session.stop()
    visitor.land()
    assert "You ended the flight" in page.statuses[-1]
    num_steps = len(page.steps)
    session.set_speed(0.0)
    visitor.fly_to_the_end("turn left")
    assert len(page.steps) > num_steps


def test_the_command_names_the_weights_of_an_agent_from_a_run(visit, shared):
    agent = Path("my runs/pvn/agent.safetensors")
    visitor = visit(shared=replace(shared, agent_files={"pvn-plus": agent}))
    assert shlex.split(visitor.page.commands[-1])[-2:] == ["--agent", str(agent)]
    visitor.session.choose_pilot("gsmn")
    visitor.settle()
    assert visitor.page.commands[-1].endswith("--agent gsmn"), "it has no run of its own"


def test_too_many_requests_are_refused(visit):
    visitor = visit()
    for _ in range(MAX_REQUESTS + 1):
        visitor.session.choose_segment(1)
    assert "wait a moment" in visitor.page.warnings[-1] and len(visitor.page.warnings) == 1


@pytest.mark.parametrize("reason", ["flying", "too many requests"])
def test_the_menu_of_pilots_returns_to_the_one_that_is_set_up_when_another_is_refused(visit, reason):
    visitor = visit(CRAWL)
    session, page = visitor.session, visitor.page
    if reason == "flying":
        visitor.take_off()
    else:
        for _ in range(MAX_REQUESTS):
            session.choose_segment(1)
        visitor.settle()
    page.menus = None  # the visitor picks another one
    session.choose_pilot("gsmn")
    visitor.settle()
    assert {"flying": "press Stop", "too many requests": "wait a moment"}[reason] in page.warnings[-1]
    assert page.menus.pilot == session.setup.pilot == "pvn-plus"
    session.close()


@pytest.mark.long
def test_stop_does_not_discard_a_flight_that_has_ended(visit):
    visitor = visit()
    session, page = visitor.session, visitor.page
    session.choose_pilot("oracle")
    visitor.settle()
    show_step = page.show_step

    def stop_at_the_end(shown, moves_slider=True):
        show_step(shown, moves_slider)
        if session._flight.end_world is not None:
            session.stop()

    page.show_step = stop_at_the_end
    visitor.fly_to_the_end()
    assert page.statuses[-1].startswith("Stopped ") and "You ended" not in page.statuses[-1]
    assert session.flights[-1].record is not None, "it can be saved"


@pytest.mark.long
@pytest.mark.parametrize(("speed", "slow"), [(0.0, "step"), (0.5, "drone")])
def test_a_replay_does_not_overwrite_what_was_chosen_since(visit, shared, speed, slow, monkeypatch):
    visitor = visit()
    session, page = visitor.session, visitor.page
    session.choose_pilot("oracle")
    visitor.fly_to_the_end()
    session.set_speed(speed)
    begun, chosen = threading.Event(), threading.Event()

    def slowly(make):
        def wait(*arguments):
            begun.set()
            assert chosen.wait(300)
            return make(*arguments)

        return wait

    if slow == "step":
        monkeypatch.setattr(ShownFlight, "show", slowly(ShownFlight.show))
    else:
        monkeypatch.setattr("pvn.app.demo.session.interpolate_pose", slowly(interpolate_pose))
    session.replay()
    assert begun.wait(300)
    session.choose_segment(1)
    visitor.settle()
    drawn = len(page.steps), page.num_moves
    chosen.set()
    shared.flight_threads.shutdown(wait=True)
    assert (len(page.steps), page.num_moves) == drawn and page.state == "choosing"


@pytest.mark.long
def test_two_visitors_have_their_own_flights(visit, shared, field):
    visitors = visit(20.0), visit(20.0)
    visitors[1].session.choose_segment(2)
    for visitor in visitors:
        visitor.take_off()
    for visitor, index in zip(visitors, (0, 2), strict=True):
        visitor.land()
        task = field.segments[index].task
        assert np.allclose(visitor.page.steps[0].pose_world[:2], task.start[:2], atol=1e-3)
        alone = fly_and_record(shared.pilots["pvn-plus"], task)
        assert np.array_equal(visitor.page.steps[-1].flown, alone.flown_world[:, :2]), "as if nobody else was there"
        assert visitor.session.flights[-1].setup.instruction == task.instruction


@pytest.mark.long
def test_a_visitor_who_leaves_frees_everything(visit, wait_until):
    visitor = visit(CRAWL)
    visitor.take_off()
    page = visitor.page
    session, flight = weakref.ref(visitor.session), weakref.ref(visitor.session._flight)
    visitor.session.close()
    num_steps = len(page.steps)
    del visitor
    wait_until(lambda: (gc.collect(), session() is None and flight() is None)[1], "the end of the session")
    assert len(page.steps) == num_steps and page.state == "flying", "nothing more is shown"


@pytest.mark.long
def test_a_flight_can_be_replayed_and_saved_as_a_picture(visit, wait_until):
    visitor = visit()
    session, page = visitor.session, visitor.page
    session.save_flight(".png")
    visitor.settle()
    assert "nothing to save yet" in page.warnings[-1]
    session.choose_pilot("oracle")
    visitor.fly_to_the_end()
    count = len(page.steps)
    session.replay()
    wait_until(lambda: len(page.steps) >= count + page.num_positions, "the replay")
    assert [shown.index for shown in page.steps[count:]] == list(range(page.num_positions))
    session.save_flight(".png")
    visitor.settle()
    assert page.files["flight.png"].startswith(b"\x89PNG")


@pytest.mark.long
@pytest.mark.parametrize(
    ("suffix", "package", "magic"), [(".mp4", "imageio_ffmpeg", b"ftyp"), (".rrd", "rerun", b"RRF")]
)
def test_a_flight_is_saved_as_a_film_and_as_a_recording(visit, suffix, package, magic):
    pytest.importorskip(package)
    visitor = visit()
    visitor.session.choose_pilot("oracle")
    visitor.session.choose_segment(1)  # a short flight
    visitor.fly_to_the_end()
    visitor.session.save_flight(suffix)
    visitor.settle()
    assert magic in visitor.page.files[f"flight{suffix}"][:16], visitor.page.warnings


@pytest.mark.long
@pytest.mark.parametrize("case", ["words", "segment", "edited", "corpus", "gsmn", "oracle"])
def test_the_command_repeats_the_flight_exactly(visit, shared, case, meadow, undrawn, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    visitor = visit()
    session, page = visitor.session, visitor.page
    text = None
    match case:
        case "segment":
            session.choose_segment(1)
        case "words":
            session.choose_segment(3)
            text = "go to the gorilla's left, then stop"
        case "edited":
            session.add_landmark("Windmill")
            session.move_landmark(0, 12.345, 40.0)
            text = "fly to the windmill"
            session.save_field()
            visitor.settle()
            (tmp_path / "field.json").write_bytes(page.files["field.json"])
        case "corpus":
            write_corpus(meadow, tmp_path / "small corpus")
            visitor = visit(shared=replace(shared, corpus=meadow, corpus_folder="small corpus"))
            session, page = visitor.session, visitor.page
            session.go_to_segment("")
            session.go_to_segment(meadow["dev"][0].id)
        case _:
            session.choose_pilot(case)
    visitor.fly_to_the_end(text)
    assert not page.warnings
    logs = []

    def remember(*arguments, **options):
        logs.append(fly(*arguments, **options))
        return logs[-1]

    monkeypatch.setattr("pvn.viz.flight_record.fly", remember)
    main(shlex.split(page.commands[-1])[1:])
    assert np.array_equal(logs[0].pose_world[0, :, :2].numpy(), page.steps[-1].flown)
    assert len(logs[0].num_steps) == 1
