"""What things are called: a listener who sees the field knows which landmark is meant, and can read the sentence."""

import functools
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from pvn.corpus.meadow.banks import bundled_banks, read_bank
from pvn.corpus.meadow.generator import make_meadow, make_settings
from pvn.corpus.meadow.guide_lines import Pose
from pvn.corpus.meadow.manoeuvre_checks import Leg
from pvn.corpus.meadow.manoeuvres import parse_manoeuvre
from pvn.corpus.meadow.references import AMBIGUOUS_SHARE, Lexicon, is_plural, refer_to_all
from pvn.corpus.meadow.scene import Scene
from pvn.corpus.meadow.sentences import correct_spelling, fill_slots
from pvn.corpus.meadow.tours import PlannedFlight, first_pose
from pvn.corpus.vocabulary import bundled_dictionary, tokenise
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import FIELD_SIZE, Landmark, Layout, sample_layout


@functools.cache
def lexicon():
    return Lexicon.of(bundled_banks())


def field(**places):
    """A scene with landmarks at places, by class name."""
    marks = tuple(Landmark(name, x, y, LANDMARK_CLASSES[name].radius) for name, (x, y) in places.items())
    return Scene.of(Layout(marks))


def flight_to(scene, mark, pose=Pose(25.0, 5.0, np.pi / 2), text="goto A"):
    flown = Leg(np.array([(pose.x, pose.y), (pose.x, pose.y + 1.0)]), pose.heading, pose.heading)
    return PlannedFlight((parse_manoeuvre(text),), (flown,), (mark,))


def names_for(scene, mark, count=300, **kwargs):
    """Texts and whether they are ambiguous, drawn many times."""
    texts = []
    for seed in range(count):
        author = "abcef"[seed % 5]
        flight = flight_to(scene, mark, **kwargs)
        found, is_ambiguous = refer_to_all(lexicon(), author, "fly to {A}", scene, flight, np.random.default_rng(seed))
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
    assert classes <= lexicon().fits[text]


def test_every_reference_fits_its_class_however_it_is_spelt():
    for bank in bundled_banks():
        for name, texts in bank.references.items():
            for text in texts:
                assert name in lexicon().fits[text], (name, text)
    assert "Barrel2" in lexicon().fits["barell"]


def test_a_class_without_a_name_in_any_bank_is_called_by_its_noun(a_new_class):
    with a_new_class():
        extended = Lexicon.of(bundled_banks())
    assert all(words["Aardvark"] == ("aardvark",) for words in extended.by_author.values())
    assert extended.fits["aardvark"] == {"Aardvark"} and extended.fits["barrel"] == lexicon().fits["barrel"]


def test_plain_names_of_look_alikes_are_ambiguous_only_in_a_small_share():
    scene = field(Barrel=(15, 20), Barrel2=(35, 20), WoodBarrel=(25, 40))
    drawn = names_for(scene, 0)
    for text, is_ambiguous in drawn:
        plain = text.removeprefix("the ")
        fits = lexicon().fits.get(plain)
        if fits is not None:
            assert is_ambiguous == bool(fits & {"Barrel2", "WoodBarrel"}), text
    share = np.mean([is_ambiguous for _, is_ambiguous in drawn])
    assert share < 3 * AMBIGUOUS_SHARE


def test_alone_in_its_field_a_barrel_is_just_the_barrel():
    scene = field(Barrel=(15, 20), Jet=(35, 20))
    drawn = names_for(scene, 0)
    assert ("the barrel", False) in drawn
    assert not any(is_ambiguous for _, is_ambiguous in drawn)


def test_look_alikes_are_distinguished_by_neighbour_border_distance_and_side():
    """One barrel is near the jet, the lake is nowhere, the other is by the blue fence, farther and to the left."""
    scene = field(Barrel=(30, 20), Barrel2=(14, 44), Jet=(40, 20))
    near = {text for text, _ in names_for(scene, 0, 1500)}
    far = {text for text, _ in names_for(scene, 1, 1500)}
    assert any(re.search(r"barrel (near|close to|closest to) the .*(jet|plane)", text) for text in near)
    assert any(re.search(r"barrel (near|by|next to|close to) the blue fence", text) for text in far)
    assert "the closest barrel" in near and "the farthest barrel" in far
    assert "the barrel on the right" in near and "the barrel on the left" in far
    assert not any(re.search(r"\bleft\b", text) for text in near)
    assert not any(re.search(r"\bright\b", text) for text in far)


def test_a_fence_distinguishes_only_the_one_landmark_that_is_clearly_nearest_to_it():
    scene = field(Barrel=(10, FIELD_SIZE - 6), Barrel2=(30, FIELD_SIZE - 6.5), Jet=(40, 20))
    for mark in (0, 1):
        assert not any("fence" in text for text, _ in names_for(scene, mark, 600))


def anchored(text):
    """The way a reference is told apart, and by what: ("near", "jet"), ("closest", None), ("left", None)."""
    found = re.search(r"(?:near|by|next to|close to|closest to) the (.+)$", text)
    if found:
        return "near", found[1]
    found = re.match(r"the (closest|nearest|far|farthest) ", text) or re.search(r"(?:on|to) the (left|right)$", text)
    return (found[1], None) if found else (None, None)


def assert_is_true(way, anchor, scene, mark, rivals, pose):
    """What tells a landmark from its rivals is so in the field."""
    centres = scene.centres
    if anchor in ("lake", "water"):
        gap = [np.hypot(*(scene.lake.shore - centres[one]).T).min() for one in (mark, *rivals)]
    elif anchor is not None and anchor.endswith(" fence"):
        x, y = centres[[mark, *rivals]].T
        far = FIELD_SIZE
        gap = {"blue": far - y, "white": y, "red": far - x, "yellow": x}[anchor.removesuffix(" fence")]
    elif anchor is not None:
        (other,) = [i for i, one in enumerate(scene.layout.landmarks) if one.name in lexicon().fits[anchor]]
        gap = np.hypot(*(centres[[mark, *rivals]] - centres[other]).T)
    else:
        off = centres[[mark, *rivals]] - (pose.x, pose.y)
        bearing = (np.arctan2(off[:, 1], off[:, 0]) - pose.heading + np.pi) % (2 * np.pi) - np.pi
        gap = {"left": -bearing, "right": bearing}.get(way, np.hypot(*off.T) * (-1 if way.startswith("far") else 1))
        assert way not in ("left", "right") or (bearing[0] > 0) == (way == "left")
    assert gap[0] < min(gap[1:]), (way, anchor)


@pytest.mark.long
def test_whatever_distinguishes_look_alikes_is_true_in_the_field():
    ways = Counter()
    for seed in range(60):
        scene = Scene.of(sample_layout(seed))
        generator = np.random.default_rng(seed)
        pose = first_pose(scene, generator)
        classes = [other.name for other in scene.layout.landmarks]
        for mark in range(len(classes)):
            for text, is_ambiguous in names_for(scene, mark, 20, pose=pose):
                way, anchor = anchored(text)
                if way is None or is_ambiguous or text.removeprefix("the ") in lexicon().fits:
                    continue
                name = re.sub(r" (near|by|next to|close to|closest to|on|to) the .*$", "", text.removeprefix("the "))
                name = re.sub(r"^(closest|nearest|far|farthest) ", "", name)
                fits = lexicon().fits[name]
                rivals = [other for other, kind in enumerate(classes) if other != mark and kind in fits]
                assert rivals, "names that fit one landmark need no help"
                assert_is_true(way, anchor, scene, mark, rivals, pose)
                ways[way] += 1
    assert ways["near"] >= 10 and ways["closest"] + ways["nearest"] >= 10


def test_a_landmark_is_not_distinguished_by_another_landmark_of_the_sentence():
    scene = field(Barrel=(30, 20), Barrel2=(14, 44), Jet=(40, 20))
    flight = replace(flight_to(scene, 0), meant=(0, 2))
    for seed in range(400):
        texts, _ = refer_to_all(lexicon(), "abcef"[seed % 5], "{A}", scene, flight, np.random.default_rng(seed))
        assert not re.search(r"(near|close to|closest to) the", texts["A"]), texts["A"]


@pytest.mark.parametrize("name", ["two palms", "yellow flowers", "group of pines and bushes", "pine trees"])
def test_a_phrase_that_says_it_gets_one_thing(name):
    assert is_plural(name) == (name != "group of pines and bushes")
    scene = field(Palm3=(30, 20), Jet=(14, 44))
    for seed in range(200):
        author = "abcef"[seed % 5]
        generator = np.random.default_rng(seed)
        texts, _ = refer_to_all(lexicon(), author, "keep {A} left, it is big", scene, flight_to(scene, 0), generator)
        assert not is_plural(texts["A"])


def test_sides_are_not_pointed_out_where_the_sentence_has_a_side_of_its_own():
    scene = field(Barrel=(30, 20), Barrel2=(14, 44), Jet=(40, 20))
    for text, _ in names_for(scene, 0, 600, text="pass A left"):
        assert "on the right" not in text and not text.startswith("the closest")


def test_slots_are_filled_and_capitals_follow_the_author():
    generator = np.random.default_rng(0)
    references = {"A": "the barrel", "B": "the jet", "F": "the blue fence", "W": "the lake"}
    assert (
        fill_slots("fly past {A}, then to {B}.", references, 0.0, generator) == "fly past the barrel, then to the jet."
    )
    assert fill_slots("{A} first. Then {F}.", references, 0.0, generator) == "The barrel first. Then the blue fence."
    assert fill_slots("{A} first, then {W}", references, 0.0, generator) == "the barrel first, then the lake"


def test_slips_are_one_a_sentence_and_spare_what_decides_where_to_fly():
    references = {"A": "the wooden treasure chest", "B": "the red barn"}
    template = "turn right between {A} and {B} then continue straight"
    whole = fill_slots(template, references, 0.0, np.random.default_rng(0))
    slipped = {fill_slots(template, references, 1.0, np.random.default_rng(seed)) for seed in range(400)}
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


@pytest.mark.long
def test_noise_is_the_share_of_sentences_with_a_slip():
    clean, noisy = (make_meadow(bundled_banks(), size=200, noise=noise, only=("train",)) for noise in (0.0, 0.5))
    pairs = list(zip(clean, noisy, strict=True))
    assert all(np.array_equal(one.demonstration.path, other.demonstration.path) for one, other in pairs)
    assert np.mean([one.task.instruction != other.task.instruction for one, other in pairs]) > 0.3


def test_without_noise_the_banks_misspellings_are_corrected():
    (author,) = [bank for bank in bundled_banks() if bank.slips]
    texts = [*(phrase.template for phrase in author.phrases), *author.fence, *author.lake]
    texts += [text for names in author.references.values() for text in names]
    known = bundled_dictionary() | {word for right in author.slips.values() for word in tokenise(right)}

    def unknown(text):
        return set(tokenise(re.sub(r"\{\w+\}", "", text))) - known

    assert {word for text in texts for word in unknown(text)} <= set(author.slips), "every misspelling is listed"
    assert not any(unknown(correct_spelling(text, author.slips)) for text in texts)
    assert correct_spelling("Foward untill {A} thats foward", author.slips) == "Forward until {A} that's forward"
    noisy, clean = (make_settings(bundled_banks(), 0, noise, is_all_unseen=False).spellings for noise in (0.01, 0.0))
    assert not noisy and clean == author.slips


@pytest.mark.long
def test_a_users_slips_are_spelt_right_without_noise(bank_file):
    phrases = [{"do": ["fence COLOR"], "say": "Foward to {F}"}]
    bank = read_bank(bank_file(phrases=phrases, slips={"foward": "onward"}))
    for noise, word in ((0.0, "Onward to "), (1e-9, "Foward to ")):
        assert all(segment.task.instruction.startswith(word) for segment in make_meadow([bank], size=20, noise=noise))
