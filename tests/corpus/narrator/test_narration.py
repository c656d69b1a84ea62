"""What the narrator says is true: of flights whose right telling is obvious, and of hundreds of others."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from pvn.corpus.meadow.banks import bundled_banks
from pvn.corpus.meadow.generator import make_meadow
from pvn.corpus.narrator.checks import are_true
from pvn.corpus.narrator.names import narrator_lexicon
from pvn.corpus.narrator.narration import narrate
from pvn.corpus.narrator.returning import sample_returns
from pvn.world.routes import sample_tour

EAST = [(5, 25), (25, 25)]


def circle(centre, radius, begin, sweep, count=80):
    angles = np.radians(np.linspace(begin, begin + sweep, count))
    return np.array(centre) + radius * np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def is_true(event, flight):
    return all(are_true([event], flight))


def events(flight, count=60):
    return {clause.event for told in flight.tell(count) for clause in told.clauses}


def test_a_barrel_on_the_left_is_never_said_to_be_on_the_right(fly):
    flight = fly(EAST, {"Barrel": (15, 29), "Jet": (30, 25)})
    texts = [told.text.lower() for told in flight.tell(200)]
    assert any("left" in text for text in texts)
    for text in texts:
        # "Right" only in "right in front of", "right past", "right at", or as the side of the barrel the drone is on.
        assert not re.search(r"(?:on|to) (?:your|ur|the) right\b", text), text
        assert not re.search(r"\bturn\b|\bbend\b", text), text


@pytest.mark.long
def test_the_mirror_image_of_a_flight_swaps_left_and_right(fly):
    flight = fly([(5, 20), (18, 20), (18, 40)], {"Barrel": (22, 26), "Jet": (18, 45), "Well": (8, 27)}, yaw=0.4)
    swapped = {replace(event, side=-event.side, marks=event.marks) for event in events(flight)}
    mirrored = events(flight.mirrored())
    assert {(e.kind, e.marks, e.side) for e in swapped if e.kind not in ("between", "end between")} == {
        (e.kind, e.marks, e.side) for e in mirrored if e.kind not in ("between", "end between")
    }


@pytest.mark.long
@pytest.mark.parametrize(("sweep", "side"), [(350, 1), (-350, -1)])
def test_a_full_circle_keeps_its_landmark_on_the_inner_side(fly, sweep, side):
    path = circle((25, 25), 4.5, -90, sweep)
    flight = fly(path, {"Windmill": (25, 25), "Jet": (40, 40)})
    rounds = {event for event in events(flight) if event.kind == "round"}
    assert {(event.side, event.amount) for event in rounds} == {(side, "full")}
    way_round = "counter|anti" if side > 0 else r"(?<![a-z-])"
    for told in flight.tell(100):
        for found in re.findall(r"[a-z-]*clockwise", told.text.lower()):
            assert re.match(way_round, found) if side > 0 else found == "clockwise"


@pytest.mark.parametrize(
    ("yaw_degrees", "amount", "side"),
    [
        (-30, "slight", 1),
        (30, "slight", -1),
        (-90, "quarter", 1),
        (90, "quarter", -1),
        (130, "much", -1),
        (160, "about", -1),
    ],
)
def test_the_first_turn_is_described_with_its_side_and_size(fly, yaw_degrees, amount, side):
    flight = fly(EAST, {"Barrel": (30, 25), "Jet": (25, 33)}, yaw=math.radians(yaw_degrees))
    turns = {(event.amount, event.side) for event in events(flight) if event.kind == "turn"}
    assert turns == {(amount, side)}


def test_a_half_turn_has_no_side(fly):
    flight = fly(EAST, {"Barrel": (30, 25)}, yaw=math.pi - 0.01)
    assert {event.side for event in events(flight) if event.kind == "turn"} == {0}
    assert not any(re.search(r"\b(left|right)\b(?! (?:at|in|before|up|to))", told.text) for told in flight.tell(60))


def test_water_is_mentioned_only_where_it_is_crossed(fly):
    lake = np.zeros((100, 100), bool)
    lake[24:36, 45:55] = True  # 12 to 18 m east, on the way
    marks = {"Barrel": (30, 25)}
    words = re.compile(r"\b(water|lake|pond|pool)\b")
    assert any(words.search(told.text) for told in fly(EAST, marks, lake=lake).tell(60))
    beside = np.roll(lake, 30, axis=1)  # 15 m further north
    assert not any(words.search(told.text) for told in fly(EAST, marks, lake=beside).tell(60))


def test_a_landmark_that_another_one_could_be_taken_for_is_not_named(fly):
    flight = fly(EAST, {"Barrel": (30, 25)})
    twin = replace(flight.layout.landmarks[0], x=15.0, y=35.0)
    both = replace(flight.layout, landmarks=(*flight.layout.landmarks, twin))
    assert flight.tell(5)
    told = [one for one in replace(flight, layout=both).tell(60)]
    assert not any(clause.event.marks for one in told for clause in one.clauses)


def test_a_flight_that_ends_far_from_everything_is_not_described(fly):
    assert not fly(EAST, {"Barrel": (10, 45)}).tell(20)


def test_a_loop_back_to_the_start_is_mentioned_however_short_the_text(fly):
    loop = fly(circle((25, 25), 4.5, 0, 350), {"Windmill": (25, 25), "Jet": (29, 32)})
    assert all(any(clause.event.kind == "round" for clause in told.clauses) for told in loop.tell(60))


OUT_AND_BACK = [(5, 25), (22, 25), (22, 25.1), (14, 23), (5, 25.2)]


def test_a_flight_there_and_back_says_what_to_pass_and_where_to_come_back_to(fly):
    told = fly(OUT_AND_BACK, {"Barrel": (14, 28), "Jet": (40, 40)}).tell(80)
    assert len(told) > 60
    for one in told:
        kinds = {clause.event.kind: clause.event for clause in one.clauses}
        assert kinds["pass"].side == 1 and "end start" in kinds, one.text
    bends = {clause.event for one in told for clause in one.clauses if clause.event.kind == "bend"}
    assert {(bend.amount, bend.side) for bend in bends} == {("about", 0)}, "nobody sees to which side it turns"


def test_a_flight_back_to_what_was_passed_says_to_come_back_to_it(fly):
    flight = fly([(5, 25), (22, 25), (22, 25.1), (17.6, 27.2)], {"Barrel": (14, 28.4), "Jet": (40, 40)})
    texts = [told.text.lower() for told in flight.tell(60) if any(c.event.kind == "end front" for c in told.clauses)]
    assert len(texts) > 20 and all(
        re.search(r"\b(back|again|return|from the far side|in the end)\b", text) for text in texts
    )


@pytest.mark.long
def test_no_text_has_more_than_five_clauses(told):
    assert max(len(narration.clauses) for _, narration in told) <= 5


def test_the_same_seed_gives_the_same_text(fly):
    flight = fly(EAST, {"Barrel": (15, 29), "Jet": (30, 25)})
    assert [told.text for told in flight.tell(20)] == [told.text for told in flight.tell(20)]


@pytest.fixture(scope="module")
def many():
    """Flights of the generator, legs of tours, and flights there and back, 450 in all."""
    tours = [leg for seed in range(40) for leg in sample_tour(seed)]
    flown = make_meadow(bundled_banks(), size=300, seed=5, only=("train",))["train"]
    returns = [flight for seed in range(10) for flight in sample_returns(seed, 5)]
    return [*(segment.demonstration for segment in flown), *tours, *returns]


@pytest.fixture(scope="module")
def told(many):
    generator = np.random.default_rng(0)
    pairs = [(flight, narrate(flight, narrator_lexicon(), generator, 0.0)) for flight in many]
    return [(flight, narration) for flight, narration in pairs if narration is not None]


@pytest.mark.long
def test_every_clause_of_hundreds_of_texts_is_true(told, many):
    assert len(told) > 0.85 * len(many)
    for flight, narration in told:
        for clause in narration.clauses:
            assert is_true(clause.event, flight), (narration.text, clause)


@pytest.mark.long
def test_the_checks_reject_what_is_on_the_other_side(told):
    """A check that accepts everything would prove nothing."""
    sided = [(flight, clause.event) for flight, one in told for clause in one.clauses if clause.event.side]
    assert len(sided) > 200
    for flight, event in sided:
        wrong = replace(event, side=-event.side)
        if event.kind == "bend" and event.amount == "back":
            continue  # half a circle leads back on either side
        assert not is_true(wrong, flight), event


@pytest.mark.long
def test_every_text_says_where_to_stop_in_readable_sentences(told):
    for _, narration in told:
        assert sum(clause.event.kind.startswith("end") for clause in narration.clauses) == 1, narration.text
        assert not re.search(r"[{}\[\]|]|  | ,|,,|\.\.|, \.", narration.text), narration.text
        assert not re.search(r"\b(\w+) \1\b", narration.text), narration.text


@pytest.mark.long
def test_many_are_short_and_hardly_two_are_alike(told):
    lengths = np.array([len(narration.text.split()) for _, narration in told])
    assert 0.15 < np.mean(lengths <= 12) < 0.45 and 0.3 < np.mean(lengths >= 20) < 0.6
    texts = [re.sub(r"\W+", " ", narration.text.lower()) for _, narration in told]
    assert len(set(texts)) > 0.97 * len(texts)
