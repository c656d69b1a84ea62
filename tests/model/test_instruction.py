"""Sentences as embeddings."""

import pytest
import torch

from pvn.corpus.vocabulary import UNKNOWN
from pvn.model.instruction import InstructionEncoder, SlotEncoder, pad_tokens


def slots(word_dropout=0.0):
    torch.manual_seed(0)
    return SlotEncoder(10, 20, lstm_size=16, num_slots=3, slot_size=10, word_dropout=word_dropout)


@pytest.mark.parametrize("make", [lambda: InstructionEncoder(10, 20, 30), slots], ids=["paper", "slots"])
@torch.no_grad()
def test_a_sentence_is_its_words_in_their_order_and_not_its_padding(make):
    encoder = make()
    short, long, swapped = [5, 3], [4, 5, 6, 7, 8], [3, 5]
    together = encoder(pad_tokens([short, long, swapped])).embedding
    assert pad_tokens([short, long, swapped]).tolist() == [[5, 3, 0, 0, 0], long, [3, 5, 0, 0, 0]]
    assert pad_tokens([short, long], multiple=4).shape == (2, 8)
    assert pad_tokens([short, long], least=4).shape == (2, 5) and pad_tokens([short], least=4).shape == (1, 4)
    for row, sentence in zip(together, (short, long, swapped), strict=True):
        assert torch.allclose(row, encoder(torch.tensor([sentence])).embedding[0], atol=1e-6)
    assert (together[0] - together[2]).abs().max() > 1e-3


@torch.no_grad()
def test_each_slot_spreads_its_attention_over_the_words_of_the_sentence():
    encoder = slots()
    states, is_word = encoder.read(pad_tokens([[5, 3], [4, 5, 6, 7, 8]]))
    weights = encoder.attend(states, is_word)
    assert weights.shape == (2, 3, 5) and states.shape == (2, 5, 32)
    assert torch.allclose(weights.sum(-1), torch.ones(2, 3)) and not weights[0, :, 2:].any()


@torch.no_grad()
def test_a_sentence_is_read_in_both_directions():
    """The state of a word in the middle depends on what comes before it and on what comes after it."""
    states = slots()(torch.tensor([[4, 5, 6], [7, 5, 6], [4, 5, 8]])).words[:, 1]
    assert not torch.equal(states[0], states[1]) and not torch.equal(states[0], states[2])


@torch.no_grad()
def test_in_training_some_words_are_read_as_unknown_ones():
    encoder, sentence = slots(word_dropout=0.5), torch.tensor([[4, 5]])
    encoder.eval()
    heard = {words: encoder(torch.tensor([words])).embedding[0] for words in ((4, 5), (4, 1), (1, 5), (1, 1))}
    assert UNKNOWN == 1 and torch.equal(encoder(sentence).embedding[0], heard[4, 5])
    encoder.train()
    found = set()
    for _ in range(40):
        embedding = encoder(sentence).embedding[0]
        found |= {words for words, other in heard.items() if torch.allclose(embedding, other, atol=1e-6)}
    assert found == set(heard)
