"""What things are called: a listener who sees the field can tell which landmark is meant, and can read the sentence."""

import functools
import re

import numpy as np
import pytest

from pvn.corpus.banks import bundled_banks
from pvn.corpus.definitions import Piece
from pvn.corpus.guides import Pose
from pvn.corpus.manoeuvres import parse_manoeuvre
from pvn.corpus.meadow import make_meadow
from pvn.corpus.references import AMBIGUOUS_SHARE, Lexicon, refer_to_all
from pvn.corpus.scene import Scene
from pvn.corpus.sentences import fill
from pvn.corpus.tours import Flight
from pvn.world.landmarks import LANDMARK_CLASSES, LANDMARK_NAMES
from pvn.world.layout import Landmark, Layout


@functools.cache
def lexicon():
    return Lexicon.of(bundled_banks())


def field(**places):
    """A scene with landmarks at places, by class name."""
    marks = tuple(Landmark(name, x, y, LANDMARK_CLASSES[name].radius) for name, (x, y) in places.items())
    return Scene.of(Layout(marks))


def flight_to(scene, mark, pose=Pose(25.0, 5.0, np.pi / 2), text="goto A"):
    piece = Piece(np.array([(pose.x, pose.y), (pose.x, pose.y + 1.0)]), pose.heading, pose.heading)
    return Flight((parse_manoeuvre(text),), (piece,), (mark,))


def names_for(scene, mark, count=300, **kwargs):
    """Texts and whether they are ambiguous, drawn many times."""
    texts = []
    for seed in range(count):
        author = "abcef"[seed % 5]
        found, is_ambiguous = refer_to_all(
            lexicon(), author, scene, flight_to(scene, mark, **kwargs), np.random.default_rng(seed)
        )
        texts.append((found["A"], is_ambiguous))
    return texts


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        ("barrel", {"Barrel", "Barrel2", "WoodBarrel", "OilDrum"}),
        ("palm tree", {"GiantPalm", "Palm1", "Palm2", "Palm3"}),
        ("well", {"Well", "WaterWell"}),
        ("anvil", {"Anvil"}),
    ],
)
def test_a_reference_fits_every_class_it_could_mean(text, classes):
    fits = lexicon().fits[text]
    assert classes <= {name for name, is_fit in zip(LANDMARK_NAMES, fits, strict=True) if is_fit}


def test_every_reference_fits_its_own_class_and_a_misspelt_one_what_it_means():
    for bank in bundled_banks():
        for name, texts in bank.references.items():
            for text in texts:
                assert lexicon().fits[text][LANDMARK_NAMES.index(name)], (name, text)
    assert lexicon().fits["barell"][LANDMARK_NAMES.index("Barrel2")]


def test_among_look_alikes_no_plain_name_is_shared_but_for_the_small_ambiguous_share():
    scene = field(Barrel=(15, 20), Barrel2=(35, 20), WoodBarrel=(25, 40))
    drawn = names_for(scene, 0)
    for text, is_ambiguous in drawn:
        plain = text.removeprefix("the ")
        fits = lexicon().fits.get(plain)
        if fits is not None:
            others = [LANDMARK_NAMES.index(name) for name in ("Barrel2", "WoodBarrel")]
            assert is_ambiguous == bool(fits[others].any()), text
    share = np.mean([is_ambiguous for _, is_ambiguous in drawn])
    assert share < 3 * AMBIGUOUS_SHARE


def test_alone_in_its_field_a_barrel_is_just_the_barrel():
    scene = field(Barrel=(15, 20), Jet=(35, 20))
    drawn = names_for(scene, 0)
    assert ("the barrel", False) in drawn
    assert not any(is_ambiguous for _, is_ambiguous in drawn)


def test_look_alikes_are_told_apart_by_neighbour_border_distance_and_side():
    """One barrel is near the jet, the lake is nowhere, the other is by the blue fence, farther and to the left."""
    scene = field(Barrel=(30, 20), Barrel2=(14, 44), Jet=(40, 20))
    near = {text for text, _ in names_for(scene, 0, 1500)}
    far = {text for text, _ in names_for(scene, 1, 1500)}
    assert any(re.search(r"barrel (near|by|next to|close to|beside) the .*(jet|plane)", text) for text in near)
    assert any(re.search(r"barrel (near|by|next to|close to|beside) the blue fence", text) for text in far)
    assert "the closest barrel" in near and "the farthest barrel" in far
    assert "the barrel on the right" in near and "the barrel on the left" in far
    assert not any(re.search(r"\bleft\b", text) for text in near)
    assert not any(re.search(r"\bright\b", text) for text in far)


def test_sides_are_not_pointed_out_where_the_sentence_has_a_side_of_its_own():
    scene = field(Barrel=(30, 20), Barrel2=(14, 44), Jet=(40, 20))
    for text, _ in names_for(scene, 0, 600, text="pass A left"):
        assert "on the right" not in text and "closest" not in text


def test_slots_are_filled_and_capitals_follow_the_author():
    generator = np.random.default_rng(0)
    references = {"A": "the barrel", "B": "the jet", "F": "the blue fence", "W": "the lake"}
    assert fill("fly past {A}, then to {B}.", references, 0.0, generator) == "fly past the barrel, then to the jet."
    assert fill("{A} first. Then {F}.", references, 0.0, generator) == "The barrel first. Then the blue fence."
    assert fill("{A} first, then {W}", references, 0.0, generator) == "the barrel first, then the lake"


def test_slips_are_one_a_sentence_and_spare_what_decides_where_to_fly():
    references = {"A": "the wooden treasure chest", "B": "the red barn"}
    say = "turn right between {A} and {B} then continue straight"
    whole = fill(say, references, 0.0, np.random.default_rng(0))
    slipped = {fill(say, references, 1.0, np.random.default_rng(seed)) for seed in range(400)}
    assert whole not in slipped and len(slipped) > 20
    for text in slipped:
        assert text.startswith("turn right between ") and " red barn" in text
        ours, theirs = whole.split(), text.split()
        if len(theirs) == len(ours):
            changed = [(one, other) for one, other in zip(ours, theirs, strict=True) if one != other]
            assert len(changed) == 1 and len(changed[0][0]) >= 5
            assert changed[0][0][0] == changed[0][1][0], "the first letter stays"
            assert changed[0][0] not in ("wooden", "chest"), "short words of references stay readable"
        else:
            assert len(theirs) == len(ours) - 1 and theirs.count("the") == ours.count("the") - 1


def test_noise_is_the_share_of_sentences_with_a_slip():
    clean = make_meadow(bundled_banks(), size=400, noise=0.0)
    noisy = make_meadow(bundled_banks(), size=400, noise=0.2)
    texts = [[segment.task.instruction for segment in corpus] for corpus in (clean, noisy)]
    assert all(np.array_equal(a.task.path, b.task.path) for a, b in zip(clean, noisy, strict=True)), (
        "flights are the same"
    )
    share = np.mean([one != other for one, other in zip(*texts, strict=True)])
    assert share > 0.1
