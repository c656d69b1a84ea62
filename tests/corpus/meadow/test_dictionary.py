"""The dictionary that says which words are spelt correctly."""

import re

from pvn.corpus.meadow.banks import bundled_banks
from pvn.corpus.vocabulary import MISSPELT, bundled_dictionary, tokenise

CLARIFYING_WORDS = "beside closest farthest left lake nearest right water".split()
"""Words that the generator adds to those of the banks, to make ambiguous references clear."""


def test_the_dictionary_is_the_correctly_spelt_words_of_the_bundled_banks():
    words = set(CLARIFYING_WORDS)
    for bank in bundled_banks():
        names = [name for group in bank.references.values() for name in group]
        for text in (*names, *bank.fence, *bank.lake, *(phrase.template for phrase in bank.phrases)):
            words.update(tokenise(re.sub(r"\{\w+\}", " ", text)))
    expected = words - MISSPELT
    assert bundled_dictionary() == expected, "write the words, sorted, one a line, into src/pvn/corpus/dictionary.txt"
