"""Sessions without a browser: flights, replays, files and limits of one visitor, and of several at once."""

import gc
import json
import re
import shlex
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pvn.app.demo.flight_setup import FlightSetup, add_landmark, move_landmark, open_link, random_field, turn_landmark
from pvn.app.demo.limits import MAX_REQUESTS, REQUEST_SECONDS, FlightQueue, RateLimit
from pvn.app.demo.shown_flight import ShownFlight
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
        ("pvn-plus", "go " * 101, "got 101 words"),
        ("pvn-plus", "go " * 10**6, "make it shorter"),
        ("oracle", "go to the apple", "does not read instructions"),
    ],
)
def test_what_no_pilot_can_fly_is_refused_with_advice(visit, pilot, text, message):
    visitor = visit()
    visitor.choose_pilot(pilot)
    visitor.session.fly(text)
    visitor.settle()
    assert message in visitor.panel.warnings[-1]
    assert visitor.session.state == "choosing" and not visitor.panel.steps


@pytest.mark.long
def test_a_flight_is_shown_step_by_step_and_its_outcome_in_words(visit):
    visitor = visit()
    session, panel = visitor.session, visitor.panel
    visitor.fly_to_the_end()
    (flight,) = session.flights
    num_positions = panel.last("state")["num_positions"]
    assert session.state == panel.last("state")["state"] == "replaying"
    assert [step["index"] for step in panel.steps[:-1]] == list(range(num_positions))
    assert {"text": f"Step 3: “{flight.setup.instruction}”"} in panel.sent["status"]
    near, goal = r"\d+ m from the [a-z ]+", r"\d+\.\d m from the goal \((reached|not within 5 m, missed)\)"
    ended = rf"(Stopped {near}, {goal}, after \d+ steps|Never stopped in \d+ steps; {near}, {goal})\."
    assert re.search(ended, panel.status), panel.status
    last = panel.steps[-1]
    assert len(last["path"]) == num_positions == len(last["speeds"]) + 1 == len(last["stops"]) + 1
    assert np.allclose(last["path"], flight.record.flown_world[:, :2], atol=0.006)
    predictions = [message["predictions"] for message in panel.sent["sees"] if message["predictions"]]
    every = session._shared.pilots["pvn-plus"].agent.plan_every
    assert len(set(predictions)) == (num_positions - 2) // every + 1, "a new picture for each prediction"
    session.show_again(2)
    visitor.settle()
    assert panel.steps[-1]["index"] == 2 and len(panel.steps[-1]["path"]) == 3
    session.show_again(999)
    visitor.settle()
    assert panel.steps[-1]["index"] == 2


def test_fly_returns_before_the_flight_begins(visit, shared, wait_until):
    """Flights have threads of their own: on a busy computer they wait, but the page never does."""
    free = threading.Event()
    with ThreadPoolExecutor(1) as one_thread:
        one_thread.submit(free.wait)
        visitor = visit(CRAWL, replace(shared, flight_threads=one_thread))
        visitor.session.fly("go to the gorilla")
        visitor.settle()
        assert visitor.session.state == "flying" and not visitor.panel.steps
        free.set()
        wait_until(lambda: visitor.panel.steps, "the first step")
        visitor.session.stop()
        visitor.land()


@pytest.mark.long
def test_each_instruction_starts_where_the_drone_is_until_start_again_puts_it_back(visit, undrawn, tmp_path, capsys):
    visitor = visit()
    session, panel = visitor.session, visitor.panel
    begun, said = session.setup.start, ["go to the gorilla", "turn left", "fly straight ahead"]
    visitor.fly_to_the_end(said[0])
    first = session.flights[-1].record
    end = first.flown_world[-1]
    for words in said[1:]:
        visitor.fly_to_the_end(words)
        moment = session.flights[-1].record.moments[0]
        assert np.allclose(moment.pose_world[:2], end[:2], atol=1e-3) and np.isclose(moment.pose_world[5], end[5])
        assert moment.maps.is_known.sum() > first.moments[0].maps.is_known.sum(), "it knows what it has seen"
        end = session.flights[-1].end_world
    assert [flight["said"] for flight in panel.flights] == said and all(flight["words"] for flight in panel.flights)
    words = shlex.split(panel.last("command")["command"])
    assert words[2:5] == said
    main([*words[1:], "--json", "--out", str(tmp_path)])
    repeated = json.loads(capsys.readouterr().out)
    assert repeated[-1]["end"] == end[[0, 1, 5]].tolist(), "the command repeats all of it exactly"
    visitor.change(FlightSetup.start_again)
    assert session.setup.start == begun and len(panel.flights) == 3, "the list stays"
    visitor.fly_to_the_end(said[0])
    assert np.array_equal(session.flights[-1].record.flown_world, first.flown_world)


@pytest.mark.long
def test_every_flight_of_the_list_can_be_replayed_and_only_the_last_keeps_its_maps(visit, wait_until):
    visitor = visit()
    session, panel = visitor.session, visitor.panel
    for words in ("go to the gorilla", "turn left"):
        visitor.fly_to_the_end(words)
    assert [flight.record is None for flight in session.flights] == [True, False]
    assert session.flights[1].setup.continues.carried is None, "maps take megabytes"
    count, end = len(panel.steps), session.flights[0].num_positions
    session.replay(0)
    wait_until(lambda: len(panel.steps) >= count + end, "the replay of the first flight")
    again = [step["pose"][:2] for step in panel.steps[count : count + end]]
    assert np.allclose(again, [session.flights[0].pose(index)[:2] for index in range(end)], atol=0.006)
    assert panel.last("flights")["shown"] == 0
    assert panel.status.endswith("What you type next starts after the last flight.")
    session.replay(7)  # there is none
    session.replay(-1)
    assert panel.last("flights")["shown"] == 0


@pytest.mark.long
def test_after_stop_the_next_instruction_starts_where_the_drone_hangs(visit, wait_until):
    visitor = visit(20.0)
    session, panel = visitor.session, visitor.panel
    visitor.take_off("go to the gorilla")
    wait_until(lambda: len(panel.steps) > 3, "some steps")
    for request in (lambda: session.fly("turn left"), lambda: session.change(FlightSetup.unchanged)):
        count = len(panel.warnings)
        request()
        visitor.settle()
        assert "press Stop" in panel.warnings[count], "one flight at a time"
    session.stop()
    visitor.land()
    (flight,) = session.flights
    place = flight.pose(len(flight.steps) - 1)[[0, 1, 5]]
    assert "You ended the flight" in panel.status and flight.record is None
    assert np.allclose(session.setup.start, place) and session.setup.continues is None
    session.set_speed(0.0)
    visitor.fly_to_the_end("turn left")
    assert np.allclose(session.flights[-1].pose(0)[:2], place[:2], atol=1e-3)
    assert "--start" in panel.last("command")["command"]


@pytest.mark.long
def test_what_is_moved_or_chosen_leaves_the_drone_where_it_is(visit):
    visitor = visit()
    session, panel = visitor.session, visitor.panel
    visitor.choose_pilot("oracle")
    visitor.fly_to_the_end()
    end = session.setup.start
    assert session.setup.continues is not None
    visitor.change(lambda setup: turn_landmark(setup, 0, 1.25))
    visitor.choose_pilot("pvn-plus")
    assert session.setup.start == pytest.approx(end) and session.setup.continues is None
    assert session.setup.layout.landmarks[0].yaw == 1.25 and len(panel.flights) == 1
    visitor.change(lambda setup: setup.starting_at((12.0, 9.0, 4.0)))
    assert session.setup.start == pytest.approx((12.0, 9.0, 4.0 - 2 * np.pi))
    assert panel.last("drone")["pose"][:2] == [12.0, 9.0] and panel.last("sees")["is_start"]
    session.go_to_field(4)
    visitor.settle()
    assert not panel.flights, "what was flown in another field cannot be shown in this one"


def test_unknown_words_are_marked_as_they_are_typed(visit, wait_until):
    visitor = visit()

    def wait_for(words, read_as):
        wait_until(lambda: visitor.panel.last("unknown") == {"words": words, "read_as": read_as}, f"{words} {read_as}")

    visitor.panel.send("unknown", {})
    for text in ("fly to the zyzz", "fly to the zyzzyva"):
        visitor.session.note_typed(text)
    wait_for(["zyzzyva"], {})
    visitor.session.note_typed("fly to the shop")
    wait_for([], {"shop": "stop"})
    visitor.session.note_typed("fly to the gorilla")
    wait_for([], {})
    visitor.choose_pilot("oracle")
    visitor.panel.send("unknown", {})
    visitor.session.note_typed("fly to the zyzzyva shop")
    wait_for([], {})  # it does not read


@pytest.mark.long
def test_a_link_flies_the_same(visit, shared, wait_until):
    visitor = visit()
    visitor.change(lambda setup: move_landmark(setup, 1, 12.0, 41.0))
    visitor.change(lambda setup: setup.starting_at((*setup.start[:2], 0.3)))
    said = ("go to the gorilla's left & stop", "turn left")
    for words in said:
        visitor.fly_to_the_end(words)
    link = visitor.panel.last("command")["link"]
    setup, instructions = open_link(link, random_field(0), tuple(shared.pilots), random_field)
    assert instructions == said and setup.layout == visitor.session.setup.layout
    other = visit()
    other.change(lambda _: setup)
    other.session.fly_all(instructions)
    wait_until(lambda: len(other.panel.flights) == 2, "the second flight's end")
    other.settle()
    ends = [one.session.flights[-1].end_world for one in (visitor, other)]
    assert np.array_equal(*ends) and other.panel.last("command")["link"] == link


def test_those_who_wait_are_told_their_place_and_fly_in_the_order_in_which_they_came(wait_until):
    queue, told, flown, called_off = FlightQueue(1), {who: [] for who in "abcd"}, [], set()
    first: list[int] = []
    queue.acquire(lambda: False, first.append)
    assert first == [], "nobody is before the first"

    def wait(who):
        try:
            queue.acquire(lambda: who in called_off, told[who].append)
        except InterruptedError:
            return
        flown.append(who)

    with ThreadPoolExecutor(4) as threads:
        for place, who in enumerate("abcd", start=1):
            threads.submit(wait, who)
            wait_until(lambda who=who, place=place: told[who] == [place], "that it is told its place")
        called_off.add("b")
        wait_until(lambda: (told["c"], told["d"]) == ([3, 2], [4, 3]), "that one less is before the last two")
        queue.release()
        wait_until(lambda: flown == ["a"] and told["c"] == [3, 2, 1], "that the next one is the first in line")
        for count in (2, 3):
            queue.release()
            wait_until(lambda count=count: len(flown) == count, "the next one's turn")
    assert flown == ["a", "c", "d"]


@pytest.mark.long
def test_more_flights_than_allowed_wait_in_line_and_can_be_called_off(visit, shared, wait_until):
    alone = replace(shared, queue=FlightQueue(1))
    first, second, third = visit(CRAWL, alone), visit(0.0, alone), visit(0.0, alone)
    first.take_off()
    for visitor in (second, third):
        visitor.settle()
        visitor.panel.landed.clear()
        visitor.session.fly("go to the gorilla")
        wait_until(lambda visitor=visitor: "in line" in visitor.panel.status, "that it is told to wait")
    assert second.session.state == "flying" and not second.panel.steps
    third.session.stop()
    third.land()
    assert third.session.state == "choosing" and "called off" in third.panel.status
    first.session.stop()
    second.land()
    assert second.panel.steps


@pytest.mark.long
def test_unknown_words_are_named_and_a_typed_instruction_has_no_goal(visit):
    visitor = visit()
    assert visitor.panel.last("drone")["goal"] is not None
    visitor.fly_to_the_end("fly to the zyzzyva shop")
    assert "'zyzzyva' is not a word I know; 'shop' is read as 'stop'." in visitor.panel.status
    assert "the goal" not in visitor.panel.status and visitor.panel.last("drone")["goal"] is None


def test_the_command_names_the_weights_of_an_agent_from_a_run(visit, shared):
    agent = Path("my runs/pvn/agent.safetensors")
    visitor = visit(shared=replace(shared, agent_files={"pvn-plus": agent}))
    assert shlex.split(visitor.panel.last("command")["command"])[-2:] == ["--agent", str(agent)]
    visitor.choose_pilot("gsmn")
    assert visitor.panel.last("command")["command"].endswith("--agent gsmn"), "it has no run of its own"


def test_requests_are_refused_only_while_there_were_too_many():
    limit = RateLimit()
    for second in range(MAX_REQUESTS):
        limit.check(float(second))
    with pytest.raises(ValueError, match="wait a moment"):
        limit.check(MAX_REQUESTS + 0.5)
    limit.check(REQUEST_SECONDS + 0.5)


@pytest.mark.parametrize("reason", ["flying", "too many requests"])
def test_the_menu_of_pilots_returns_to_the_one_that_is_set_up_when_another_is_refused(visit, reason):
    visitor = visit(CRAWL)
    session, panel = visitor.session, visitor.panel
    if reason == "flying":
        visitor.take_off()
    else:
        for _ in range(MAX_REQUESTS):
            visitor.choose_segment(1)
    assert not panel.warnings
    del panel.sent["setup"][:]  # the visitor picks another one
    visitor.choose_pilot("gsmn")
    assert {"flying": "press Stop", "too many requests": "wait a moment"}[reason] in panel.warnings[-1]
    assert panel.last("setup")["pilot"] == session.setup.pilot == "pvn-plus"
    session.close()


@pytest.mark.long
def test_stop_does_not_discard_a_flight_that_has_ended(visit, monkeypatch):
    visitor = visit()
    session, page = visitor.session, visitor.page
    visitor.choose_pilot("oracle")
    show_step = page.show_step

    def stop_at_the_end(shown, moves_slider=True):
        show_step(shown, moves_slider)
        if session._flight.end_world is not None:
            session.stop()

    monkeypatch.setattr(page, "show_step", stop_at_the_end)
    visitor.fly_to_the_end()
    assert visitor.panel.status.startswith("Stopped ")
    assert session.flights[-1].record is not None, "it can be saved"


@pytest.mark.long
@pytest.mark.parametrize(("speed", "slow"), [(0.0, "step"), (0.5, "drone")])
def test_a_replay_does_not_overwrite_what_was_chosen_since(visit, shared, speed, slow, monkeypatch):
    visitor = visit()
    session, panel = visitor.session, visitor.panel
    visitor.choose_pilot("oracle")
    visitor.fly_to_the_end()
    session.set_speed(speed)
    begun, chosen, moves = threading.Event(), threading.Event(), []
    monkeypatch.setattr(visitor.page, "move_drone", moves.append)

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
    visitor.choose_segment(1)
    drawn = len(panel.steps), len(moves)
    chosen.set()
    shared.flight_threads.shutdown(wait=True)
    assert (len(panel.steps), len(moves)) == drawn and panel.last("state")["state"] == "choosing"


@pytest.mark.long
def test_two_visitors_have_their_own_flights(visit, shared, field):
    visitors = visit(20.0), visit(20.0)
    visitors[1].choose_segment(2)
    for visitor in visitors:
        visitor.take_off()
    for visitor, index in zip(visitors, (0, 2), strict=True):
        visitor.land()
        (flight,), task = visitor.session.flights, field.segments[index].task
        alone = fly_and_record(shared.pilots["pvn-plus"], task)
        assert np.array_equal(flight.record.flown_world, alone.flown_world), "as if nobody else was there"
        assert flight.setup.instruction == task.instruction


@pytest.mark.long
def test_a_visitor_who_leaves_frees_everything(visit, wait_until):
    visitor = visit(CRAWL)
    visitor.take_off()
    panel = visitor.panel
    session, flight = weakref.ref(visitor.session), weakref.ref(visitor.session._flight)
    visitor.session.close()
    num_steps = len(panel.steps)
    del visitor
    wait_until(lambda: (gc.collect(), session() is None and flight() is None)[1], "the end of the session")
    assert len(panel.steps) == num_steps and panel.last("state")["state"] == "flying", "nothing more is shown"


@pytest.mark.long
@pytest.mark.parametrize(
    ("suffix", "package", "magic"),
    [(".png", "PIL", b"\x89PNG"), (".mp4", "imageio_ffmpeg", b"ftyp"), (".rrd", "rerun", b"RRF")],
)
def test_a_flight_is_saved_as_a_picture_a_film_or_a_recording(visit, suffix, package, magic):
    pytest.importorskip(package)
    visitor = visit()
    visitor.choose_pilot("oracle")
    visitor.choose_segment(1)  # a short flight
    visitor.session.save_flight(suffix)
    visitor.settle()
    assert "nothing to save yet" in visitor.panel.warnings[-1]
    visitor.fly_to_the_end()
    visitor.session.save_flight(suffix)
    visitor.settle()
    assert magic in visitor.panel.file(f"flight{suffix}")[:16], visitor.panel.warnings


@pytest.mark.long
@pytest.mark.parametrize("case", ["words", "segment", "edited", "corpus", "gsmn", "chaplot", "oracle"])
def test_the_command_repeats_the_flight_exactly(visit, shared, case, meadow, undrawn, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    visitor = visit()
    text = None
    match case:
        case "segment":
            visitor.choose_segment(1)
        case "words":
            visitor.choose_segment(3)
            text = "go to the gorilla's left, then stop"
        case "edited":
            visitor.change(lambda setup: move_landmark(add_landmark(setup, "Windmill"), 0, 12.345, 40.0))
            text = "fly to the windmill"
            visitor.session.save_field()
            visitor.settle()
            (tmp_path / "field.json").write_bytes(visitor.panel.file("field.json"))
        case "corpus":
            write_corpus(meadow, tmp_path / "small corpus")
            visitor = visit(shared=replace(shared, corpus=meadow, corpus_folder="small corpus"))
            visitor.session.go_to_segment("")
            visitor.session.go_to_segment(meadow["dev"][0].id)
        case _:
            visitor.choose_pilot(case)
    visitor.fly_to_the_end(text)
    panel, (flight,) = visitor.panel, visitor.session.flights
    assert not panel.warnings and panel.last("sees")["image"].startswith("data:image/jpeg;base64,")
    logs = []

    def remember(*arguments, **options):
        logs.append(fly(*arguments, **options))
        return logs[-1]

    monkeypatch.setattr("pvn.viz.flight_record.fly", remember)
    main(shlex.split(panel.last("command")["command"])[1:])
    assert np.array_equal(logs[0].pose_world[0].numpy(), flight.record.flown_world) and len(logs[0].num_steps) == 1
