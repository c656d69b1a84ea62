"""What people type: cleaned, refused where nothing of it is known, and what is said about unknown words."""

import pytest

from pvn.corpus.typed_instruction import check_typed, clean_instruction, unknown_words_sentence
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


@pytest.mark.parametrize("text", ["go", "zebra go", "go to the elephant", "大象 well"])
def test_one_known_word_is_enough(vocabulary, text):
    check_typed(text, vocabulary)


@pytest.mark.parametrize("text", ["", "🐘", "...", "—", "👨‍👩‍👧"])
def test_a_text_without_words_is_refused(vocabulary, text):
    with pytest.raises(ValueError, match=r'which has no words, expected a sentence such as "go .*; type one'):
        check_typed(clean_instruction(text), vocabulary)


@pytest.mark.parametrize("text", ["大象", "اذهب إلى البئر", "zebra zebra elephant"])
def test_a_text_of_unknown_words_alone_is_refused(vocabulary, text):
    with pytest.raises(ValueError, match=r"words? I know, expected an English sentence such as .* in other words"):
        check_typed(text, vocabulary)
    check_typed(text)  # a pilot that does not read may fly by it


@pytest.mark.parametrize("text", ["go " * 101, "go " + "o" * 1000])
def test_a_text_that_is_too_long_is_refused(vocabulary, text):
    with pytest.raises(ValueError, match="expected at most 100 words and 1,000 characters; make it shorter"):
        check_typed(text, vocabulary)
