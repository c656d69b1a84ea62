"""Sentences as embeddings."""

import torch

from pvn.model.instruction import InstructionEncoder, pad_tokens


@torch.no_grad()
def test_a_sentence_is_its_words_in_their_order_and_not_its_padding():
    encoder = InstructionEncoder(10, 20, 30)
    short, long, swapped = [5, 3], [4, 5, 6, 7, 8], [3, 5]
    together = encoder(pad_tokens([short, long, swapped]))
    assert pad_tokens([short, long, swapped]).tolist() == [[5, 3, 0, 0, 0], long, [3, 5, 0, 0, 0]]
    for row, sentence in zip(together, (short, long, swapped), strict=True):
        assert torch.allclose(row, encoder(torch.tensor([sentence]))[0], atol=1e-6)
    assert (together[0] - together[2]).abs().max() > 1e-3
