"""Which words mean which landmark classes: the paper's appendix, worked out by hand and by brute force."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pvn.corpus.alignment import Alignment, AlignmentConfig, align, near_classes
from pvn.corpus.meadow.banks import Bank
from pvn.corpus.meadow.references import sensible_words
from pvn.corpus.segments import Segment
from pvn.corpus.vocabulary import PADDING, UNKNOWN, Vocabulary
from pvn.world.landmarks import LANDMARK_CLASSES, LANDMARK_NAMES
from pvn.world.layout import Landmark, Layout
from pvn.world.task import Demonstration, Task

APPLE, BOAT, CACTUS = (LANDMARK_NAMES.index(name) for name in ("Apple", "Boat", "Cactus"))
FREQUENT_ALLOWED = AlignmentConfig(max_probability=1.1)


def landmark(name, x, y):
    return Landmark(name, x, y, LANDMARK_CLASSES[name].radius)


def segment(number, near, instruction, path=((5.0, 5.0), (6.0, 5.0))):
    """A segment in the south-west corner with landmarks near its path; there is a cactus too far to the north-east."""
    places = itertools.product((3.0, 13.0), (3.0, 13.0))
    marks = [landmark(name, x, y) for name, (x, y) in zip(near, places, strict=False)]
    layout = Layout((*marks, landmark("Cactus", 45.0, 45.0)))
    task = Task(layout, (*path[0], 0.0), instruction)
    return Segment(number, 0, Demonstration(task, np.array(path)))


def corpus(*rows):
    segments = [segment(number, near, instruction) for number, (near, instruction) in enumerate(rows)]
    return segments, Vocabulary.from_texts(row.task.instruction for row in segments)


# P(Apple) = 3/5, P(Boat) = 2/5; P(apple) = 2/5 (said twice in one instruction, it still is one event), P(boat) = 3/5,
# P(then) = 2/5.
BY_HAND = (
    (("Apple", "Boat"), "apple apple, then boat"),
    (("Apple",), "apple"),
    (("Boat",), "boat"),
    (("Apple",), "boat"),
    ((), "then"),
)


def test_scores_are_as_worked_out_by_hand():
    alignment = align(*corpus(*BY_HAND), FREQUENT_ALLOWED)
    # Apple: with apple in 2 of 5, 2/5 ln((2/5) / (3/5 2/5)) = 0.4 ln(5/3) = 0.20433
    #        with boat in 2 of 5,  2/5 ln((2/5) / (3/5 3/5)) = 0.4 ln(10/9) = 0.04214
    #        with then in 1 of 5,  1/5 ln((1/5) / (3/5 2/5)) = 0.2 ln(5/6) = -0.03646: less than by chance
    assert alignment.words[APPLE] == ("apple", "boat")
    assert alignment.scores[APPLE] == pytest.approx((0.20433, 0.04214), abs=1e-5)
    # Boat: with boat in 2 of 5,  2/5 ln((2/5) / (2/5 3/5)) = 0.4 ln(5/3) = 0.20433
    #       with apple in 1 of 5, 1/5 ln((1/5) / (2/5 2/5)) = 0.2 ln(5/4) = 0.04463
    #       with then in 1 of 5,  the same
    assert alignment.words[BOAT] == ("boat", "apple", "then"), "equal scores in alphabetical order"
    assert alignment.scores[BOAT] == pytest.approx((0.20433, 0.04463, 0.04463), abs=1e-5)
    others = [words for place, words in enumerate(alignment.words) if place not in (APPLE, BOAT)]
    assert not any(others), "a class that is nowhere near has no words"


def test_typos_count_as_the_words_they_mean_and_unknown_words_do_not_count():
    rows = [(near, text.replace("boat", "boaat") + " zebra") for near, text in BY_HAND]
    segments = [segment(number, near, instruction) for number, (near, instruction) in enumerate(rows)]
    vocabulary = corpus(*BY_HAND)[1]
    assert align(segments, vocabulary, FREQUENT_ALLOWED) == align(*corpus(*BY_HAND), FREQUENT_ALLOWED)


def test_a_score_must_exceed_its_threshold():
    segments, vocabulary = corpus(*BY_HAND)
    score = align(segments, vocabulary, FREQUENT_ALLOWED).scores[APPLE][1]
    for threshold, words in ((score, ("apple",)), (math.nextafter(score, 0), ("apple", "boat"))):
        config = AlignmentConfig(min_score=threshold, max_probability=1.1)
        assert align(segments, vocabulary, config).words[APPLE] == words


def test_the_papers_thresholds_are_the_defaults():
    assert AlignmentConfig() == AlignmentConfig(radius=15.0, min_score=0.008, max_probability=0.1)
    # Of 100 segments one says banana, and n are near an apple, that one among them: the score is 0.01 ln(100 / n),
    # 0.00821 for 44 and 0.00799 for 45.
    for num_near, words in ((44, ("banana",)), (45, ())):
        rows = [(("Apple",) if row < num_near else (), "banana" if row == 0 else "go") for row in range(100)]
        assert align(*corpus(*rows)).words[APPLE] == words


@pytest.mark.parametrize(("num_saying", "words"), [(1, ("apple",)), (2, ())])
def test_a_word_said_in_a_tenth_of_the_instructions_means_nothing(num_saying, words):
    # Of 20 segments, 2 saying apple are exactly the share of 0.1 that an aligned word stays below.
    rows = [(("Apple",), "apple")] * num_saying + [((), "go")] * (20 - num_saying)
    assert align(*corpus(*rows)).words[APPLE] == words


def test_words_and_classes_that_never_meet_are_not_aligned_and_give_no_warning():
    with np.errstate(all="raise"):
        alignment = align(
            *corpus((("Apple",), "boat"), ((), "apple"), ((), "go")), AlignmentConfig(max_probability=1, min_score=0)
        )
    assert alignment.words[APPLE] == ("boat",)


# What is near


def near(path, *marks):
    demonstration = Demonstration(Task(Layout(marks), (0.0, 0.0, 0.0), "go"), np.array(path, float))
    return {LANDMARK_NAMES[place] for place in np.flatnonzero(near_classes([Segment(0, 0, demonstration)], 15.0)[0])}


def test_fifteen_metres_are_within_fifteen_metres():
    path = [(40, 10), (31, 12), (40, 12)]
    assert near(path, landmark("Apple", 22, 24)) == {"Apple"}, "9 m west and 12 m north of the middle point"
    assert near(path, landmark("Apple", 21.999, 24)) == set()


def test_any_point_of_the_path_and_any_landmark_of_the_class_will_do():
    marks = landmark("Apple", 5, 45), landmark("Apple", 40, 14), landmark("Boat", 5, 5), landmark("Cactus", 20, 40)
    assert near([(45, 5), (46, 5)], *marks) == {"Apple"}
    assert near([(45, 5), (5, 10)], *marks) == {"Apple", "Boat"}
    assert near([(5, 10), (45, 5)], *marks) == {"Apple", "Boat"}


# Against brute force


NAMES, WORDS = ("Apple", "Boat", "Banana"), ("apple", "boat", "banana", "then", "go")
rows_of_corpora = st.lists(
    st.tuples(
        st.sets(st.sampled_from(NAMES)).map(sorted),
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join),
    ),
    min_size=1,
    max_size=12,
)


def brute_force(rows, min_score, max_probability):
    """The paper's definition, event by event."""
    total = len(rows)
    found = {name: {} for name in LANDMARK_NAMES}
    for name, word in itertools.product(NAMES, WORDS):
        is_near, is_said = [name in row[0] for row in rows], [word in row[1].split() for row in rows]
        p_near, p_said = sum(is_near) / total, sum(is_said) / total
        p_both = sum(a and b for a, b in zip(is_near, is_said, strict=True)) / total
        if p_both and p_said < max_probability:
            score = p_both * math.log(p_both / (p_near * p_said))
            if score > min_score:
                found[name][word] = pytest.approx(score)
    return found


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(rows_of_corpora, st.sampled_from([0.0051, 0.053, 0.21]), st.sampled_from([0.1, 0.5, 0.77, 1.1]))
def test_alignments_agree_with_the_definition_event_by_event(rows, min_score, max_probability):
    config = AlignmentConfig(min_score=min_score, max_probability=max_probability)
    alignment = align(*corpus(*rows), config)
    found = {
        name: dict(zip(words, scores, strict=True))
        for name, words, scores in zip(LANDMARK_NAMES, alignment.words, alignment.scores, strict=True)
    }
    assert found == brute_force(rows, min_score, max_probability)


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(rows_of_corpora, st.randoms())
def test_the_order_of_the_segments_does_not_matter(rows, random):
    segments, vocabulary = corpus(*rows)
    shuffled = random.sample(segments, len(segments))
    assert align(shuffled, vocabulary, FREQUENT_ALLOWED) == align(segments, vocabulary, FREQUENT_ALLOWED)


def test_segments_of_one_field_may_share_it():
    layout = Layout((landmark("Apple", 5, 5), landmark("Boat", 45, 45)))
    texts = ["apple", "boat", *["go"] * 18]
    paths = [[(5, 9), (6, 9)], [(45, 40), (44, 40)], *[[(25, 25), (26, 25)]] * 18]
    demonstrations = [
        Demonstration(Task(layout, (0.0, 0.0, 0.0), text), np.array(path, float))
        for path, text in zip(paths, texts, strict=True)
    ]
    segments = [Segment(0, place, demonstration) for place, demonstration in enumerate(demonstrations)]
    alignment = align(segments, Vocabulary.from_texts(texts))
    assert (alignment.words[APPLE], alignment.words[BOAT]) == (("apple",), ("boat",))


# What an instruction mentions


@pytest.fixture(scope="module")
def mentioning():
    vocabulary = Vocabulary.from_texts(["the red apple, boat or canoe"])
    words = {APPLE: ("apple", "red"), BOAT: ("boat", "canoe", "red")}
    return Alignment(
        vocabulary,
        tuple(words.get(place, ()) for place in range(len(LANDMARK_NAMES))),
        tuple((0.5, 0.25, 0.125)[: len(words.get(place, ()))] for place in range(len(LANDMARK_NAMES))),
    )


@pytest.mark.parametrize(
    ("instruction", "mentioned"),
    [
        ("the canoe", {BOAT}),
        ("The APPLE!", {APPLE}),
        ("the aple", {APPLE}),
        ("red", {APPLE, BOAT}),
        ("the boat or the apple", {APPLE, BOAT}),
        ("the zebra", set()),
        ("", set()),
    ],
)
def test_an_instruction_mentions_the_classes_aligned_with_any_of_its_words(mentioning, instruction, mentioned):
    found = mentioning.mentioned(instruction)
    assert found.shape == (len(LANDMARK_NAMES),) and found.dtype == bool
    assert set(np.flatnonzero(found)) == mentioned
    assert np.array_equal(mentioning.mentioned(mentioning.vocabulary.encode(instruction)), found), "its ids, the same"


def test_a_padded_batch_of_ids_mentions_the_same_as_each_instruction_alone(mentioning):
    texts = ["the red apple", "zebra", "canoe"]
    ids = [mentioning.vocabulary.encode(text) for text in texts]
    padded = np.array([row + [PADDING] * (5 - len(row)) for row in ids])
    assert mentioning.is_aligned.shape == (len(mentioning.vocabulary), len(LANDMARK_NAMES))
    assert not mentioning.is_aligned[[PADDING, UNKNOWN]].any()
    assert np.array_equal(mentioning.is_aligned[padded].any(axis=1), [mentioning.mentioned(text) for text in texts])


# Do the words make sense?


def test_a_word_is_sensible_if_the_banks_use_it_for_the_class_and_it_says_something():
    words = {
        "Apple": ("fruit", "the", "boat"),
        "Boat": ("apple", "little", "with"),
        "Anvil": ("thing",),
        "Jet": ("the",),
    }
    vocabulary = Vocabulary.from_texts([word for group in words.values() for word in group])
    alignment = Alignment(
        vocabulary,
        tuple(words.get(name, ()) for name in LANDMARK_NAMES),
        tuple((0.3, 0.2, 0.1)[: len(words.get(name, ()))] for name in LANDMARK_NAMES),
    )
    found = sensible_words(alignment)
    assert list(found) == list(LANDMARK_NAMES)
    assert {name: group for name, group in found.items() if group} == {"Apple": ("fruit",), "Boat": ("little",)}


def test_a_reference_with_a_typo_makes_the_word_sensible_that_it_means():
    bank = Bank("x", {"Banana": ("yellow bananna",)}, (), (), ())
    rows = [(("Banana", "Apple"), "banana")] + [((), "go")] * 19
    found = sensible_words(align(*corpus(*rows)), [bank])
    assert (found["Banana"], found["Apple"]) == (("banana",), ())


def test_plain_instructions_teach_a_sensible_word_for_every_class():
    """Flights to one of nine landmarks that stand 17 m apart, told by its noun and sometimes its neighbour's."""
    generator = np.random.default_rng(0)
    places = list(itertools.product((8.0, 25.0, 42.0), (8.0, 25.0, 42.0)))
    segments = []
    for number in range(1500):
        names = generator.permutation(LANDMARK_NAMES)[:9].tolist()
        layout = Layout(tuple(landmark(name, x, y) for name, (x, y) in zip(names, places, strict=True)))
        x, y = places[number % 9]
        path = np.array([(25.0, 25.0), (x, y + 3.0)])
        said = LANDMARK_CLASSES[names[number % 9]].noun
        task = Task(layout, (25.0, 25.0, 0.0), f"fly to the {said} and stop")
        segments.append(Segment(number, 0, Demonstration(task, path)))
    alignment = align(segments, Vocabulary.from_texts(segment.task.instruction for segment in segments))
    assert all(sensible_words(alignment).values())
    assert set(alignment.words[LANDMARK_NAMES.index("Windmill")]) == {"windmill"}
    assert not {"fly", "to", "the", "and", "stop"} & set(itertools.chain(*alignment.words)), "said too often"
