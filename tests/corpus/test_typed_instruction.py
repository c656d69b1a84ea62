"""What people type: cleaned, refused where nothing of it says what to do, and what is said about its words."""

import re

import pytest

from pvn.corpus.typed_instruction import (
    FUNCTION_WORDS,
    check_typed,
    clean_instruction,
    read_as_sentence,
    unknown_words_sentence,
    words_note,
)
from pvn.corpus.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary.from_texts(["go to the well"], min_count=1, dictionary=())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], ""),
        (["elephant"], "'elephant' is not a word I know"),
        (["elephant", "zebra"], "'elephant' and 'zebra' are not words I know"),
        (["a", "b", "c"], "'a', 'b' and 'c' are not words I know"),
        (list("abcdef"), "'a', 'b', 'c', 'd', 'e' and 1 other are not words I know"),
        (["o" * 99], f"'{'o' * 23}…' is not a word I know"),
    ],
)
def test_unknown_words_are_named_in_one_sentence(words, sentence):
    assert unknown_words_sentence(words) == sentence


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", ""),
        ("goat", "'goat' is read as 'Goat'"),
        ("goat shop", "'goat' is read as 'Goat' and 'shop' as 'Shop'"),
        ("a b c", "'a' is read as 'A', 'b' as 'B' and 'c' as 'C'"),
        ("a b c d e f g", "'a' is read as 'A', 'b' as 'B', 'c' as 'C', 'd' as 'D', 'e' as 'E' and 2 more likewise"),
    ],
)
def test_words_that_are_read_as_others_are_named_in_one_sentence(words, sentence):
    assert read_as_sentence({word: word.capitalize() for word in words.split()}) == sentence


def test_unknown_words_come_before_those_that_are_read_as_others(vocabulary):
    said = "'zebra' is not a word I know; 'wall' is read as 'well'"
    assert words_note("go to the wall, zebra", vocabulary) == said
    assert words_note("go to the wall", vocabulary) == "'wall' is read as 'well'"
    assert words_note("go to the well", vocabulary) == ""


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


@pytest.mark.parametrize("text", ["go", "zebra go", "go to the elephant", "大象 well", "the wall"])
def test_one_known_word_that_says_something_is_enough(vocabulary, text):
    check_typed(text, vocabulary)


@pytest.mark.parametrize("word", "ahead around back behind down forward gorilla left over past right stop up".split())
def test_a_direction_a_thing_or_a_deed_says_something_by_itself(word):
    assert word not in FUNCTION_WORDS
    check_typed(word, Vocabulary.from_texts([word], min_count=1))


@pytest.mark.parametrize("text", ["", "🐘", "...", "—", "👨‍👩‍👧"])
def test_a_text_without_words_is_refused(vocabulary, text):
    with pytest.raises(ValueError, match=r'which has no words, expected a sentence such as "go .*; type one'):
        check_typed(clean_instruction(text), vocabulary)


@pytest.mark.parametrize("text", ["大象", "اذهب إلى البئر", "zebra zebra elephant"])
def test_a_text_of_unknown_words_alone_is_refused(vocabulary, text):
    with pytest.raises(ValueError, match=r"words? I know, expected an English sentence such as .* in other words"):
        check_typed(text, vocabulary)
    check_typed(text)  # a pilot that does not read may fly by it


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("the", "nothing in it says what to do"),
        ("to the, to the", "nothing in it says what to do"),
        ("to the elephant", "'elephant' is not a word I know, and nothing else in it says what to do"),
        ("the frog", "'frog' is read as 'from', and nothing else in it says what to do"),
        ("frog, elephant", "'elephant' is not a word I know; 'frog' is read as 'from', and nothing else in it says"),
    ],
)
def test_a_text_whose_known_words_are_function_words_is_refused(text, why):
    vocabulary = Vocabulary.from_texts(["go to the well from the tree"], min_count=1, dictionary=())
    with pytest.raises(ValueError, match=re.escape(f"instruction: got {text!r}, but {why}") + ".*; say it in other"):
        check_typed(text, vocabulary)
    check_typed(text)


@pytest.mark.parametrize("text", ["go " * 101, "go " + "o" * 1000])
def test_a_text_that_is_too_long_is_refused(vocabulary, text):
    with pytest.raises(ValueError, match="expected at most 100 words and 1,000 characters; make it shorter"):
        check_typed(text, vocabulary)
