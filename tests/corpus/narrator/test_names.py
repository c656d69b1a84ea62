"""Other names for landmarks in natural instructions."""

import numpy as np
import pytest

from pvn.corpus.meadow.references import is_plural
from pvn.corpus.narrator.names import RENAMED_SHARE, narrator_lexicon, rename_text
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Landmark, Layout


def field_of(*names):
    """A field with landmarks of these classes in a row."""
    marks = tuple(
        Landmark(name, 8.0 + 15.0 * place, 20.0, LANDMARK_CLASSES[name].radius, 0.0) for place, name in enumerate(names)
    )
    return Layout(marks, np.zeros((100, 100), bool))


def renamings(text, layout, count=60):
    """What the text becomes with many seeds."""
    return {rename_text(text, layout, np.random.default_rng(seed)) for seed in range(count)}


def test_a_landmark_is_called_by_its_other_names_and_the_rest_of_the_text_stays():
    found = renamings("Pass the hydrant, then turn left.", field_of("FireHydrant", "Anvil"))
    assert "Pass the hydrant, then turn left." in found and "Pass the red fire hydrant, then turn left." in found
    assert all(text.startswith("Pass the ") and text.endswith(", then turn left.") for text in found)
    names = {text.removeprefix("Pass the ").removesuffix(", then turn left.") for text in found}
    known = {name for author in narrator_lexicon().by_author.values() for name in author["FireHydrant"]}
    assert len(names) > 3 and names <= known


def test_about_half_of_the_mentions_are_renamed():
    layout = field_of("Gorilla", "Boat")
    texts = [rename_text("to the gorilla", layout, np.random.default_rng(seed)) for seed in range(400)]
    assert np.mean([text != "to the gorilla" for text in texts]) == pytest.approx(RENAMED_SHARE, abs=0.08)


def test_no_name_fits_another_landmark_of_the_field():
    """There are two mushrooms: neither may become "the mushroom"."""
    layout = field_of("Mushroom", "Boletus")
    fits = narrator_lexicon().fits
    for text in renamings("stop at the red mushroom.", layout):
        assert "Boletus" not in fits[text.removeprefix("stop at the ").removesuffix(".")], text
    assert renamings("stop at the mushroom.", layout) == {"stop at the mushroom."}, "whose name is it?"


def test_two_landmarks_of_one_class_keep_their_names():
    assert renamings("go to the gorilla.", field_of("Gorilla", "Gorilla")) == {"go to the gorilla."}


def test_words_that_may_belong_to_the_name_keep_it_as_it_is():
    layout = field_of("StreetLamp", "Anvil")
    assert renamings("go to the lamp shop", layout) == {"go to the lamp shop"}
    assert len(renamings("go to the lamp and stop", layout)) > 1


def test_articles_and_plurals_still_fit():
    for text in renamings("There is an anvil on your left.", field_of("Anvil", "Boat")):
        article, first = text.split()[2:4]
        assert article == ("an" if first[0] in "aeiou" else "a"), text
    for text in renamings("Keep the two palms on your left.", field_of("Palm3", "Boat")):
        assert is_plural(text.removeprefix("Keep the ").removesuffix(" on your left.")), text
    assert all(text.startswith("The ") for text in renamings("The anvil is ahead.", field_of("Anvil", "Boat")))
