"""Phrase banks: bad ones are refused with the reason."""

import pytest

from pvn.corpus.meadow.banks import read_bank


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"author": "me 2"}, "author: got me 2, expected a name of letters"),
        ({"phrases": []}, "phrases: got \\[\\], expected a list with at least one phrase"),
        ({"phrases": ["go"]}, "phrase 0: phrase: got go, expected an object such as"),
        ({"phrases": [{"do": ["goto A"], "say": "  "}]}, "say: got no words"),
        (
            {"phrases": [{"do": ["goto A"], "say": "fly to it"}]},
            "phrase 0 \\('fly to it'\\): slots: got none, expected {A}",
        ),
        ({"phrases": [{"do": ["goto A"], "say": "fly to {A} and {B}"}]}, "slots: got {A}, {B}, expected {A}"),
        ({"phrases": [{"do": ["fence COLOR"], "say": "fly to {A}"}]}, "slots: got {A}, expected {F}"),
        ({"phrases": [{"do": ["goto A"], "say": "fly to the {A}"}]}, "no article before a slot"),
        ({"phrases": [{"do": ["goto A"], "say": "fly to {A"}]}, "slots: got none, expected {A}"),
        ({"phrases": [{"do": ["goto B"], "say": "fly to {B}"}]}, "landmarks named A, B, C in the order they come"),
        ({"phrases": [{"do": ["goto A"] * 4, "say": "fly to {A}"}]}, "expected one to 3 manoeuvres"),
        ({"phrases": [{"do": ["fly A"], "say": "fly to {A}"}]}, "expected one of the closed set"),
        (
            {"references": {"Barel": ["barrel"]}},
            "got 'Barel', expected names of landmark classes, such as 'Barrel'",
        ),
        (
            {"references": {"Barrel": ["the barrel"]}},
            "references of Barrel: got 'the barrel', expected 'barrel', without",
        ),
        ({"references": {"Barrel": [1]}}, "references of Barrel: got \\[1\\], expected a list of noun phrases"),
        ({"phrases": [{"do": ["fence blue"], "say": "fly to {F}"}]}, "expected fence COLOR"),
        (
            {"phrases": [{"do": ["fence COLOR", "turn left", "fence COLOR"], "say": "{F} then left to {F}"}]},
            "at most one fence",
        ),
        ({"phrases": [{"do": ["goto A"], "say": "fly to {A} \ud83d"}]}, "half characters"),
        ({"lake": ["{COLOR} lake"]}, "lake: got '{COLOR} lake', expected plain words"),
        ({"slips": {"Foward": "forward"}}, "slips: got {'Foward': 'forward'}, expected an object from words in small"),
        ({"slips": ["foward"]}, "slips: got"),
        ({"fence": ["fence"]}, "fence: got 'fence', expected one {COLOR} in it"),
    ],
)
def test_a_bad_bank_names_the_file_the_phrase_and_the_reason(bank_file, changes, message):
    path = bank_file(**changes)
    with pytest.raises(ValueError, match=message) as error:
        read_bank(path)
    assert "mine.json" in str(error.value)


def test_a_missing_or_broken_bank_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="no bank file"):
        read_bank(tmp_path / "none.json")
    (tmp_path / "broken.json").write_text('{"author": ')
    with pytest.raises(ValueError, match="broken.json: not valid JSON"):
        read_bank(tmp_path / "broken.json")
