"""Words: how text becomes tokens, which words are terms, and which are typos of which."""

import functools
import json
import string
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pvn.corpus.meadow.banks import bundled_banks
from pvn.corpus.vocabulary import (
    MAX_LETTERS,
    MISSPELT,
    PADDING,
    UNKNOWN,
    Vocabulary,
    bundled_dictionary,
    merge_typos,
    num_edits,
    tokenise,
)

few_letters = st.text("abc", max_size=7)


def repeated(**counts):
    """Texts in which each word occurs so often."""
    return [" ".join([word] * count) for word, count in counts.items()]


# Tokens


@given(st.text(string.printable))
def test_ascii_text_is_tokenised_by_the_authors_recipe(text):
    for mark in string.punctuation:
        text = text.replace(mark, " ")
    assert tokenise(text) == text.strip().lower().split()


def test_typographic_marks_separate_words_as_their_ascii_forms_do_and_accents_do_not():
    typed = "don't stop - fly \"past\" the 'red' barrel... then to the two-storey house, ok?"
    pasted = (
        "don\u2019t stop \u2014 fly \u201cpast\u201d the \u2018red\u2019 barrel\u2026 "
        "then to the two\u2011storey\u00a0house, ok\uff1f"
    )
    assert tokenise(pasted) == tokenise(typed)
    assert tokenise("don\u00b4t") == tokenise("don`t") == ["don", "t"]
    assert tokenise("CAFÉ, Döner-stand") == ["café", "döner", "stand"]
    assert tokenise("cafe\u0301") == tokenise("caf\u00e9"), "however the accent is encoded"


@pytest.mark.long
@given(st.text())
@example("İ")
def test_any_text_has_tokens_which_are_their_own(text):
    for word in tokenise(text):
        assert tokenise(word) == [word]
        assert "_" not in word and not word.isspace()


# Edits


def slow_num_edits(word, other):
    @functools.cache
    def edits(rest, wanted):
        if not rest or not wanted:
            return len(rest) + len(wanted)
        options = [
            edits(rest[1:], wanted) + 1,
            edits(rest, wanted[1:]) + 1,
            edits(rest[1:], wanted[1:]) + (rest[0] != wanted[0]),
        ]
        if len(rest) > 1 and rest[:2] == wanted[1::-1]:
            options.append(edits(rest[2:], wanted[2:]) + 1)
        return min(options)

    def once(text):
        return "".join(letter for place, letter in enumerate(text) if text[place - 1 : place] != letter)

    return 1 if once(word) == once(other) and word != other else edits(word, other)


@pytest.mark.long
@settings(max_examples=250)
@given(few_letters, few_letters)
def test_edits_agree_with_their_definition(word, other):
    assert num_edits(word, other) == slow_num_edits(word, other) == num_edits(other, word)
    assert (num_edits(word, other) == 0) == (word == other)


@pytest.mark.parametrize(
    ("typo", "word", "edits"),
    [
        ("rigth", "right", 1),  # swapped
        ("foward", "forward", 1),  # left out
        ("hydrent", "hydrant", 1),  # another letter
        ("thhe", "the", 1),  # typed twice
        ("barell", "barrel", 1),  # the wrong letter doubled
        ("stooooop", "stop", 1),
        ("streetlite", "streetlight", 3),
        ("sled", "red", 2),
    ],
)
def test_a_slip_of_the_fingers_is_one_edit(typo, word, edits):
    assert num_edits(typo, word) == edits


# Typos


def slow_nearest(word, counts):
    """By looking at every term."""
    most = min(len(word) // 4, 3) if word.isalpha() and len(word) <= MAX_LETTERS else 0
    ranked = []
    for term, count in counts.items():
        is_like = term[0] == word[0] and len(term) <= MAX_LETTERS
        if is_like and (edits := slow_num_edits(word, term)) <= most:
            strange = sum(max(word.count(letter) - term.count(letter), 0) for letter in set(word))
            ranked.append((edits, strange, -count, term))
    return min(ranked)[3] if ranked else None


def knowing(counts):
    terms = tuple(sorted(counts))
    return Vocabulary(terms, tuple(counts[term] for term in terms), {}, frozenset())


words_of_few_letters = st.text("ab", min_size=1, max_size=13)


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(words_of_few_letters, st.dictionaries(words_of_few_letters, st.integers(1, 3), min_size=1, max_size=12))
def test_the_nearest_term_is_the_one_that_looking_at_every_term_finds(word, counts):
    assert knowing(counts).term(word) == (word if word in counts else slow_nearest(word, counts))


@st.composite
def terms_and_a_slip(draw):
    terms = draw(st.lists(st.sampled_from(sorted(bundled_dictionary())), min_size=1, max_size=6, unique=True))
    word = draw(st.sampled_from(terms))
    for _ in range(draw(st.integers(1, 4))):
        place, put_in, num_taken_out = (
            draw(st.integers(1, len(word))),
            draw(st.sampled_from("-ae")),
            draw(st.integers(0, 1)),
        )
        word = word[:place] + put_in.strip("-") + word[place + num_taken_out :]
    return {term: place % 3 + 1 for place, term in enumerate(terms)}, word


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(terms_and_a_slip())
@example(({"straight": 1, "streetlight": 2}, "streetlite"))
@example(({"counterclockwise": 1}, "countrclokwize"))
@example(({"counterclockwise": 1}, "counteerrclocckwisse"))
@example(({"anticlockwise": 1, "clockwise": 1}, "anticlockwiseee"))
def test_real_words_with_slips_join_the_term_that_looking_at_every_term_finds(drawn):
    counts, word = drawn
    assert knowing(counts).term(word) == (word if word in counts else slow_nearest(word, counts))


BANK_WORDS = [
    word
    for bank in bundled_banks()
    for text in (
        *(phrase.template for phrase in bank.phrases),
        *(name for group in bank.references.values() for name in group),
        *bank.fence,
    )
    for word in tokenise(text)
]

MEANT = {
    "aroud": "around", "arround": "around", "bananna": "banana", "barell": "barrel", "betwen": "between",
    "bolder": "boulder", "catcus": "cactus", "completly": "completely", "feild": "field", "fense": "fence",
    "foward": "forward", "goin": "going", "hydrent": "hydrant", "keepin": "keeping", "lader": "ladder",
    "mushrom": "mushroom", "pumkin": "pumpkin", "quater": "quarter", "recyle": "recycle", "rigth": "right",
    "torwards": "towards", "tresure": "treasure", "trun": "turn", "tumbstone": "tombstone", "untill": "until",
    "untl": "until", "windmil": "windmill", "wishin": "wishing",
}  # fmt: skip


def test_the_banks_typos_join_the_words_they_mean_and_no_other_word_joins_any():
    assert merge_typos(BANK_WORDS) == MEANT
    assert set(MEANT) == MISSPELT


def test_new_typos_join_the_words_they_mean():
    vocabulary = Vocabulary.from_texts([" ".join(BANK_WORDS)])
    typos = {
        "barel": "barrel", "frward": "forward", "wich": "which", "toword": "toward", "muchroom": "mushroom",
        "beetwen": "between", "hydrand": "hydrant", "strght": None, "lighthose": "lighthouse", "pass": "pass",
        "conter": "counter", "helicopter": None, "sled": None, "zebra": None, "4ward": None, "rd": None, "lamf": "lamp",
    }  # fmt: skip
    assert {typo: vocabulary.term(typo) for typo in typos} == typos


def test_sound_rare_words_are_not_merged_into_frequent_ones():
    """Three edits at any length, as with the authors' large dictionary, would merge every one of these."""
    texts = repeated(red=50, lake=50, orange=50, wall=50, tower=50, fence=50, between=50, chair=50)
    rare = ["sled", "bed", "range", "hall", "power", "hence", "ween", "hair", "lark", "fern"]
    assert merge_typos([*rare, *" ".join(texts).split()], dictionary=()) == {}


def test_a_typo_has_one_edit_in_four_letters_and_three_at_most():
    words = ["abcd", "abcdefgh", "abcdefghijkl", "abcdefghijklmnop"]
    typos = {
        "abxd": "abcd",
        "abxdefgx": "abcdefgh",
        "abxdefgxijkx": "abcdefghijkl",
        "abxdefgxijkxmnop": "abcdefghijklmnop",
    }
    too_far = ["abc", "axxd", "abxdxfgx", "axxdxfgxijkl", "abxdefgxijkxmnox", "abc1"]
    assert merge_typos([*words, *typos, *too_far], dictionary=words) == typos


def test_among_equally_near_terms_letters_decide_then_frequency_then_the_alphabet():
    assert merge_typos(["wich", "which", *["with"] * 9])["wich"] == "which", "its letters are all in it"
    assert merge_typos(["trun", *["trunk"] * 2, *["turn"] * 9]) == {"trun": "turn"}
    assert merge_typos(["trun", *["trunk"] * 9, *["turn"] * 2]) == {"trun": "trunk"}
    assert merge_typos(["trun", "turn", "trunk"]) == {"trun": "trunk"}


# The vocabulary


def test_other_words_are_terms_from_ten_occurrences_on():
    vocabulary = Vocabulary.from_texts(repeated(zebra=10, yak=9, r2d2=10, c3po=9))
    assert vocabulary.terms == ("r2d2", "zebra")
    assert Vocabulary.from_texts(["Glide to the Barrel!"]).terms == ("barrel", "glide", "the", "to"), (
        "in the dictionary"
    )
    assert vocabulary.unknown_words("zebra yak r2d2 c3po") == ["yak", "c3po"]
    assert Vocabulary.from_texts(repeated(zebra=3, yak=2), min_count=3).terms == ("zebra",)


def test_a_frequent_word_stands_for_itself_but_a_known_misspelling_never_does():
    texts = repeated(forward=50, foreward=10, forwards=9, foward=30)
    vocabulary = Vocabulary.from_texts(texts, dictionary=["forward"])
    assert vocabulary.terms == ("foreward", "forward")
    assert vocabulary.merged == {"forwards": "forward", "foward": "forward"}


def test_a_misspelling_with_nothing_near_is_a_word_like_any_other():
    assert Vocabulary.from_texts(repeated(barrel=1, foward=10)).terms == ("barrel", "foward")
    assert Vocabulary.from_texts(repeated(barrel=1, foward=9)).terms == ("barrel",)


def test_only_words_of_the_training_text_are_known():
    vocabulary = Vocabulary.from_texts(["go to the shoot"])
    assert vocabulary.term("windmill") is None
    assert vocabulary.term("scoot") is None, "a sound word, so not a typo of shoot"
    assert vocabulary.term("shooot") == "shoot"


def test_ids_are_padding_unknown_and_then_the_terms_in_alphabetical_order():
    vocabulary = Vocabulary.from_texts(["the barrel, then the windmill"])
    assert (PADDING, UNKNOWN) == (0, 1)
    assert [vocabulary.encode(term) for term in vocabulary.terms] == [[2], [3], [4], [5]]
    assert list(vocabulary.terms) == ["barrel", "the", "then", "windmill"]
    assert vocabulary.counts == (1, 2, 1, 1)
    assert len(vocabulary) == 6, "rows of a table of embeddings"
    assert vocabulary.encode("Then the zebra; the barell.") == [4, 3, UNKNOWN, 3, 2]


@pytest.mark.parametrize("text", ["", "   ", "?!", "—", "_"])
def test_a_text_without_words_is_one_unknown_word(text):
    vocabulary = Vocabulary.from_texts(["the barrel"])
    assert vocabulary.encode(text) == [UNKNOWN]
    assert vocabulary.unknown_words(text) == []


def test_words_read_as_others_are_listed_with_them():
    vocabulary = Vocabulary.from_texts(["fly to the goal", "the barell", "the barrel"])
    text = "Fly to the goal, the GOAT, the barell, the zebra, flyyyy to the goat"
    assert vocabulary.read_as(text) == {"goat": "goal", "barell": "barrel", "flyyyy": "fly"}
    read = [vocabulary.read_as(text).get(word, word) for word in tokenise(text)]
    assert vocabulary.encode(" ".join(read)) == vocabulary.encode(text), "they are read as if those were typed"
    assert vocabulary.unknown_words(text + " zebra yak ZEBRA") == ["zebra", "yak"], "each once, in order"


@pytest.mark.long
@given(st.permutations(["barell", "barrel here", "go foward", "forward forward", "wich which with", "zebra " * 10]))
def test_the_order_of_the_texts_does_not_matter(texts):
    assert Vocabulary.from_texts(texts) == Vocabulary.from_texts(sorted(texts))


@pytest.mark.long
@given(st.lists(st.sampled_from([*BANK_WORDS[:300], *MISSPELT, "zebra", "r2d2", "barrrel"]), min_size=1))
def test_training_words_are_terms_or_typos_of_terms_or_unknown_and_unseen_ones_follow_the_same_rule(words):
    vocabulary = Vocabulary.from_texts([" ".join(words)])
    counts = Counter(words)
    assert dict(zip(vocabulary.terms, vocabulary.counts, strict=True)).items() <= counts.items()
    relearnt = Vocabulary(vocabulary.terms, vocabulary.counts, {}, vocabulary.sound)
    for word in words:
        assert vocabulary.term(word) == relearnt.term(word)
        assert vocabulary.encode(word) == (
            [UNKNOWN] if vocabulary.term(word) is None else vocabulary.encode(vocabulary.term(word))
        )


def test_a_page_pasted_without_spaces_is_one_unknown_word_at_once():
    page = "flytothebarrel" * 2_000
    vocabulary = Vocabulary.from_texts(["fly to the barrel", page, *[f"{page}x"] * 10])
    assert vocabulary.term(page) is None
    assert vocabulary.term(f"{page}x") == f"{page}x"
    assert vocabulary.term(f"{page}y") is None


def test_a_vocabulary_written_to_json_and_read_back_is_the_same():
    vocabulary = Vocabulary.from_texts(["go to the barell", "the barrel", "café " * 10])
    read = Vocabulary.from_json(json.loads(json.dumps(vocabulary.to_json())))
    assert read == vocabulary
    assert read.encode("the barell, the barrrel and the café") == vocabulary.encode(
        "the barell, the barrrel and the café"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "got version 2, expected 1"),
        ({"merged": None}, "merged: got NoneType, expected dict"),
        ({"counts": [1, True, 1]}, "counts: got True, expected each int"),
        ({"counts": [1, 0, 1]}, "expected one for each term, from 1"),
        ({"terms": ["barrel", "to", "the"]}, "expected each once, sorted"),
        ({"terms": ["barrel", "the", "to go"]}, "got the word 'to go', expected words as they are tokenised"),
        ({"merged": {"barell": "windmill"}}, "got typos of 'windmill'"),
        ({"sound": ["the"]}, "got 'the' as two of"),
    ],
)
def test_a_broken_vocabulary_is_refused_with_the_reason(change, message):
    content = Vocabulary.from_texts(["to the barrel"]).to_json() | change
    with pytest.raises(ValueError, match=message):
        Vocabulary.from_json(content)


def test_only_the_first_hundred_words_of_a_text_are_read():
    vocabulary = knowing({"go": 5, "on": 5})
    assert len(vocabulary.encode("go on " * 600)) == 100
    assert vocabulary.encode("go on " * 600) == vocabulary.encode("go on " * 50)
