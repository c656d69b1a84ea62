"""Instruction encoders, from word ids to the sentence's embedding and its words' states.

The paper's is a recurrent network, whose last state is the embedding. The other one reads the sentence in both
directions, and each of several slots attends to the words that matter to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pvn.corpus.vocabulary import PADDING, UNKNOWN


def pad_tokens(sentences: Sequence[Sequence[int]], multiple: int = 1, least: int = 1) -> Tensor:
    """Word ids (B, N) of sentences, padded at their ends; N is a multiple of `multiple`, and `least` or more."""
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    longest = math.ceil(max(int(lengths.max()), least) / multiple) * multiple
    tokens = torch.full((len(sentences), longest), PADDING, dtype=torch.int64)
    tokens[torch.arange(longest) < lengths[:, None]] = torch.tensor(
        [word for sentence in sentences for word in sentence]
    )
    return tokens


@dataclass(frozen=True)
class EncodedInstructions:
    """B instructions as the network reads them."""

    embedding: Tensor
    """Embeddings (B, E) of whole sentences."""
    words: Tensor
    """States (B, N, D) of the words."""
    is_word: Tensor
    """(B, N) bool: False for padding; the first word counts in any case."""

    def __getitem__(self, which: Tensor) -> EncodedInstructions:
        """The instructions at these indices (Q,)."""
        return EncodedInstructions(self.embedding[which], self.words[which], self.is_word[which])


def _is_word(tokens: Tensor) -> Tensor:
    """Which word ids (B, N) are not padding; the first one counts in any case."""
    return (tokens != PADDING) | (torch.arange(tokens.shape[1], device=tokens.device) == 0)


class InstructionEncoder(nn.Module):
    """Instructions to embeddings (paper)."""

    def __init__(self, num_words: int, word_size: int, embedding_size: int) -> None:
        super().__init__()
        self.state_size = embedding_size
        self.words = nn.Embedding(num_words, word_size)
        self.lstm = nn.LSTM(word_size, embedding_size, batch_first=True)
        for name, parameter in self.lstm.named_parameters():
            nn.init.xavier_normal_(parameter) if "weight" in name else nn.init.zeros_(parameter)

    def forward(self, tokens: Tensor) -> EncodedInstructions:
        """Word ids (B, N), padded at the end, encoded; the embedding is the state after the sentence's last word."""
        is_word = _is_word(tokens)
        states, _ = self.lstm(self.words(tokens))
        place = torch.arange(tokens.shape[1], device=tokens.device)
        last = (place == is_word.sum(1, keepdim=True) - 1).to(states)
        return EncodedInstructions(torch.einsum("bn,bne->be", last, states), states, is_word)


class SlotEncoder(nn.Module):
    """Instructions to embeddings made of slots, one for each thing that a sentence may mention.

    A few dozen numbers cannot hold three landmarks, their order and their sides (docs/log.md).
    """

    def __init__(
        self, num_words: int, word_size: int, lstm_size: int, num_slots: int, slot_size: int, word_dropout: float
    ) -> None:
        """lstm_size: size of each recurrent network; word_dropout: fraction of words that training reads as unknown."""
        super().__init__()
        self.word_dropout = word_dropout
        self.state_size = 2 * lstm_size
        self.words = nn.Embedding(num_words, word_size)
        self.forwards = nn.LSTM(word_size, lstm_size, batch_first=True)
        self.backwards = nn.LSTM(word_size, lstm_size, batch_first=True)
        self.attention = nn.Linear(self.state_size, num_slots)
        self.value = nn.Parameter(torch.empty(num_slots, self.state_size, slot_size))
        for lstm in (self.forwards, self.backwards):
            for name, parameter in lstm.named_parameters():
                nn.init.xavier_normal_(parameter) if "weight" in name else nn.init.zeros_(parameter)
        nn.init.normal_(self.value, std=self.state_size**-0.5)

    def read(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """States of the words (B, N, D), and which of them count (B, N)."""
        is_word = _is_word(tokens)
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

        return torch.cat([self.forwards(words)[0], mirror(self.backwards(mirror(words))[0])], -1), is_word

    def attend(self, states: Tensor, is_word: Tensor) -> Tensor:
        """How much (B, slots, N) each slot attends to each word, from what `read` returns."""
        scores = self.attention(states).masked_fill(~is_word[..., None], -torch.inf)
        return scores.softmax(1).transpose(1, 2)  # type: ignore[no-any-return]

    def forward(self, tokens: Tensor) -> EncodedInstructions:
        """Word ids (B, N), padded at the end, encoded; the embedding has slots * slot_size numbers."""
        states, is_word = self.read(tokens)
        attended = self.attend(states, is_word) @ states  # (B, slots, D)
        embedding = torch.einsum("bsi,sio->bso", attended, self.value.to(attended.dtype)).tanh().flatten(1)
        return EncodedInstructions(embedding, states, is_word)
