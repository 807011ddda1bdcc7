"""Tokens as integers, and sentences as padded batches of them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import SupportsInt

import torch
from jaxtyping import Int
from torch import Tensor

#: The numbers of padding, the beginning and the end of a sentence, and an unknown word.
PAD, BOS, EOS, UNK = range(4)
#: The special tokens, in the order of their numbers.
SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")


class Vocabulary:
    """A fixed list of tokens, each with its number: those of ``SPECIAL`` first, as 0 to 3, then the rest.

    Raises:
        ValueError: a token is listed twice.
    """

    def __init__(self, tokens: Iterable[str]):
        self.tokens = (*SPECIAL, *tokens)  #: all tokens, in the order of their numbers
        #: the number of each token
        self.numbers = {token: number for number, token in enumerate(self.tokens)}
        if len(self.numbers) < len(self.tokens):
            twice = [
                token for token, count in Counter(self.tokens).items() if count > 1
            ]
            raise ValueError(
                f"{len(twice)} tokens are listed more than once, the first is {twice[0]!r}"
            )

    @classmethod
    def of(
        cls, sentences: Iterable[Sequence[str]], minimum_frequency: int = 1
    ) -> "Vocabulary":
        """Tokens that occur at least ``minimum_frequency`` times: most frequent first, then by alphabet."""
        counts = Counter(token for sentence in sentences for token in sentence)
        kept = [
            token
            for token, count in counts.items()
            if count >= minimum_frequency and token not in SPECIAL
        ]
        return cls(sorted(kept, key=lambda token: (-counts[token], token)))

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, sentence: Iterable[str]) -> list[int]:
        """The number of each token, ``<unk>`` for one not in the vocabulary, or spelt like a special one."""
        return [
            UNK if token in SPECIAL else self.numbers.get(token, UNK)
            for token in sentence
        ]

    def decode(self, numbers: Iterable[SupportsInt]) -> list[str]:
        """The tokens of a sentence up to its ``<eos>``, without ``<bos>`` and padding.

        Raises:
            ValueError: a number is outside the vocabulary.
        """
        sentence = []
        for number in map(int, numbers):
            if not 0 <= number < len(self):
                raise ValueError(
                    f"token {number} is outside the vocabulary of {len(self)} entries"
                )
            if number == EOS:
                break
            if number not in (PAD, BOS):
                sentence.append(self.tokens[number])
        return sentence


def pad(sequences: Sequence[Sequence[int]]) -> Int[Tensor, "b n"]:
    """The sequences as the rows of one tensor, each filled up with padding to the longest.

    Raises:
        ValueError: there are no sequences.
    """
    if not sequences:
        raise ValueError("there are no sequences to pad")
    length = max(map(len, sequences))
    rows = [[*sequence, *[PAD] * (length - len(sequence))] for sequence in sequences]
    return torch.tensor(rows, dtype=torch.int64)


def pad_documents(documents: Sequence[Sequence[Sequence[int]]]) -> Int[Tensor, "b s n"]:
    """Documents of sentences in one tensor, filled up with padding to most sentences and longest sentence.

    Raises:
        ValueError: there are no documents, or no sentence in any of them.
    """
    sentences = pad([sentence for document in documents for sentence in document])
    most = max(map(len, documents))
    spoken = torch.tensor(
        [[place < len(document) for place in range(most)] for document in documents]
    )
    padded = torch.full((*spoken.shape, sentences.shape[1]), PAD)
    padded[spoken] = sentences
    return padded
