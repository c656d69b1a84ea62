"""Typed instructions: cleaned, refused if they say nothing, and reported where words are unknown."""

import re

import pytest

from pvn.corpus.typed_instruction import (
    FUNCTION_WORDS,
    check_typed,
    clean_instruction,
    words_note,
)
from pvn.corpus.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary.from_texts(["go to the well"], min_count=1, dictionary=())


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("go to the well", ""),
        ("elephant", "'elephant' is not a word I know"),
        ("aa bb cc dd ee ff", "'aa', 'bb', 'cc', 'dd', 'ee' and 1 other are not words I know"),
        ("o" * 99, f"'{'o' * 23}…' is not a word I know"),
        ("go to the wall", "'wall' is read as 'well'"),
        ("wall welk", "'wall' is read as 'well' and 'welk' as 'well'"),
        ("zebra wall", "'zebra' is not a word I know; 'wall' is read as 'well'"),
    ],
)
def test_unknown_words_and_words_read_as_others_are_listed(vocabulary, text, note):
    assert words_note(text, vocabulary) == note


@pytest.mark.parametrize(
    ("typed", "cleaned"),
    [
        ("  go\n\tto  the\r\nwell ", "go to the well"),
        ("go to the w\u200bel\ufeffl", "go to the well"),
        ("\u202ego\u0000to \ud83d well", "go to well"),
        ("go to the 大象 🐘", "go to the 大象 🐘"),
    ],
)
def test_newlines_become_spaces_and_invisible_characters_vanish(typed, cleaned):
    assert clean_instruction(typed) == cleaned


@pytest.mark.parametrize("word", "ahead around back behind down forward gorilla left over past right stop up".split())
def test_a_direction_a_thing_or_a_deed_says_something_by_itself(word):
    assert word not in FUNCTION_WORDS
    check_typed(word, Vocabulary.from_texts([word], min_count=1))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("🐘", "which has no words"),
        ("大象", "'大象' is not a word I know"),
        ("to the, to the", "nothing in it says what to do"),
        ("to the elephant", "'elephant' is not a word I know, and nothing else in it says what to do"),
        ("the frog", "'frog' is read as 'from', and nothing else in it says what to do"),
        ("go " * 101, "expected at most 100 words and 1,000 characters"),
        ("go " + "o" * 1000, "expected at most 100 words and 1,000 characters"),
    ],
)
def test_a_text_that_says_nothing_or_too_much_is_refused(text, why):
    vocabulary = Vocabulary.from_texts(["go to the well from the tree"], min_count=1, dictionary=())
    with pytest.raises(ValueError, match=re.escape(why)):
        check_typed(text, vocabulary)
    check_typed("zebra go", vocabulary)
    check_typed("zebra")  # a pilot that reads no instructions may fly by it
