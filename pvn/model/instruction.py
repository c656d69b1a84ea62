"""The instruction encoder: word embeddings and a recurrent network, whose last state is the sentence's embedding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pvn.corpus.vocabulary import PADDING


def pad_tokens(sentences: Sequence[Sequence[int]]) -> Tensor:
    """Word ids (B, N) of sentences, padded at their ends."""
    longest = max(map(len, sentences))
    tokens = torch.full((len(sentences), longest), PADDING, dtype=torch.int64)
    for row, sentence in zip(tokens, sentences, strict=True):
        row[: len(sentence)] = torch.tensor(sentence)
    return tokens


class InstructionEncoder(nn.Module):
    """Instructions to embeddings."""

    def __init__(self, num_words: int, word_size: int, embedding_size: int) -> None:
        super().__init__()
        self.words = nn.Embedding(num_words, word_size)
        self.lstm = nn.LSTM(word_size, embedding_size, batch_first=True)
        for name, parameter in self.lstm.named_parameters():
            nn.init.xavier_normal_(parameter) if "weight" in name else nn.init.zeros_(parameter)

    def forward(self, tokens: Tensor) -> Tensor:
        """Embeddings (B, E) of word ids (B, N), padded at the end: the state after each sentence's last word."""
        lengths = (tokens != PADDING).sum(1).clamp(min=1)
        states, _ = self.lstm(self.words(tokens))
        last = (torch.arange(tokens.shape[1], device=tokens.device) == lengths[:, None] - 1).to(states)
        return torch.einsum("bn,bne->be", last, states)
