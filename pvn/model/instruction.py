"""Instruction encoders, from word ids to the sentence's embedding.

The paper's is a recurrent network, whose last state is the embedding. The other one reads the sentence in both
directions, and each of several slots attends to the words that matter to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pvn.corpus.vocabulary import PADDING, UNKNOWN


def pad_tokens(sentences: Sequence[Sequence[int]]) -> Tensor:
    """Word ids (B, N) of sentences, padded at their ends."""
    longest = max(map(len, sentences))
    tokens = torch.full((len(sentences), longest), PADDING, dtype=torch.int64)
    for row, sentence in zip(tokens, sentences, strict=True):
        row[: len(sentence)] = torch.tensor(sentence)
    return tokens


class InstructionEncoder(nn.Module):
    """Instructions to embeddings (paper)."""

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


class SlotEncoder(nn.Module):
    """Instructions to embeddings made of slots, one for each thing that a sentence may say.

    A few dozen numbers cannot hold three landmarks, their order and their sides (docs/log.md).
    """

    def __init__(
        self, num_words: int, word_size: int, state_size: int, num_slots: int, slot_size: int, word_dropout: float
    ) -> None:
        """state_size: of the recurrent networks, one in each direction; word_dropout: share of words not read."""
        super().__init__()
        self.word_dropout = word_dropout
        self.words = nn.Embedding(num_words, word_size)
        self.forwards = nn.LSTM(word_size, state_size, batch_first=True)
        self.backwards = nn.LSTM(word_size, state_size, batch_first=True)
        self.attention = nn.Linear(2 * state_size, num_slots)
        self.value = nn.Parameter(torch.empty(num_slots, 2 * state_size, slot_size))
        for lstm in (self.forwards, self.backwards):
            for name, parameter in lstm.named_parameters():
                nn.init.xavier_normal_(parameter) if "weight" in name else nn.init.zeros_(parameter)
        nn.init.normal_(self.value, std=(2 * state_size) ** -0.5)

    def attend(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """How much each slot attends to each word (B, slots, N), and the words' states (B, N, 2 * state_size)."""
        is_word = tokens != PADDING
        is_word = is_word | (~is_word.any(1, keepdim=True) & (torch.arange(tokens.shape[1], device=tokens.device) == 0))
        if self.training and self.word_dropout > 0:
            is_missed = torch.rand(tokens.shape, device=tokens.device) < self.word_dropout
            tokens = torch.where(is_missed & is_word, UNKNOWN, tokens)
        # The words of each sentence in reverse order, its padding still at its end.
        place = torch.arange(tokens.shape[1], device=tokens.device)
        mirrored = is_word.sum(1, keepdim=True) - 1 - place
        mirrored = torch.where(mirrored >= 0, mirrored, place)
        words = self.words(tokens)

        def mirror(values: Tensor) -> Tensor:
            return values.gather(1, mirrored[..., None].expand(-1, -1, values.shape[-1]))

        states = torch.cat([self.forwards(words)[0], mirror(self.backwards(mirror(words))[0])], -1)
        scores = self.attention(states).masked_fill(~is_word[..., None], -torch.inf)
        return scores.softmax(1).transpose(1, 2), states

    def forward(self, tokens: Tensor) -> Tensor:
        """Embeddings (B, slots * slot_size) of word ids (B, N), padded at the end."""
        weights, states = self.attend(tokens)
        attended = weights @ states  # (B, slots, 2 * state_size)
        return torch.einsum("bsi,sio->bso", attended, self.value.to(attended.dtype)).tanh().flatten(1)
