"""Tokens as integer ids, and sentences as padded batches of ids."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import SupportsInt

import torch
from jaxtyping import Int
from torch import Tensor

#: The ids of padding, of the start and the end of a sentence, and of unknown tokens.
PAD, BOS, EOS, UNK = range(4)
#: What the searches of :mod:`companion.decoding` need to know: ``greedy(…, **MARKS)``.
MARKS = {"bos": BOS, "eos": EOS, "pad": PAD}
#: The special tokens, in the order of their ids.
SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")


class Vocabulary:
    """A fixed list of tokens, each with an id: the special tokens are 0 to 3.

    Args:
        tokens: all other tokens, in the order of their ids.

    Example:
        >>> vocabulary = Vocabulary.of([["a", "rose", "is", "a", "rose"]])
        >>> vocabulary.encode(["a", "rose", "is", "red"])
        [4, 5, 6, 3]
        >>> vocabulary.decode([1, 4, 5, 2, 0])
        ['a', 'rose']
    """

    def __init__(self, tokens: Iterable[str]):
        self.tokens = (*SPECIAL, *tokens)  #: all tokens, in the order of their ids
        #: the id of each token
        self.ids = {token: index for index, token in enumerate(self.tokens)}
        if len(self.ids) < len(self.tokens):
            repeated = [
                token for token, count in Counter(self.tokens).items() if count > 1
            ]
            raise ValueError(
                f"{len(repeated)} tokens are listed more than once, the first is {repeated[0]!r}"
            )

    @classmethod
    def of(
        cls, sentences: Iterable[Sequence[str]], minimum_frequency: int = 1
    ) -> "Vocabulary":
        """The tokens that occur at least ``minimum_frequency`` times.

        They are sorted by frequency, most frequent first, then alphabetically.
        """
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
        """The id of each token.

        A token that is not in the vocabulary, or is spelt like a special one, is
        ``<unk>``.
        """
        return [
            UNK if token in SPECIAL else self.ids.get(token, UNK) for token in sentence
        ]

    def decode(self, ids: Iterable[SupportsInt]) -> list[str]:
        """The tokens of a sentence up to its ``<eos>``, without ``<bos>`` and padding."""
        sentence = []
        for index in map(int, ids):
            if not 0 <= index < len(self):
                raise ValueError(
                    f"token {index} is outside the vocabulary of {len(self)} entries"
                )
            if index == EOS:
                break
            if index not in (PAD, BOS):
                sentence.append(self.tokens[index])
        return sentence


def pad(sequences: Sequence[Sequence[int]]) -> Int[Tensor, "b n"]:
    """The sequences as the rows of one tensor, padded to the length of the longest.

    Example:
        >>> pad([[7], [5, 6, 2]])
        tensor([[7, 0, 0],
                [5, 6, 2]])
    """
    if not sequences:
        raise ValueError("there are no sequences to pad")
    length = max(map(len, sequences))
    rows = [[*sequence, *[PAD] * (length - len(sequence))] for sequence in sequences]
    padded = torch.tensor(rows)
    if padded.is_floating_point() and length:  # a tensor without ids counts as float
        raise TypeError(f"token ids must be integers, not {padded.dtype}")
    return padded.long()


def pad_documents(documents: Sequence[Sequence[Sequence[int]]]) -> Int[Tensor, "b s n"]:
    """Documents of sentences in one tensor.

    It is padded to the largest number of sentences and the longest sentence.

    Example:
        >>> pad_documents([[[5, 6], [7]], [[8]]]).tolist()
        [[[5, 6], [7, 0]], [[8, 0], [0, 0]]]
    """
    sentences = pad([sentence for document in documents for sentence in document])
    counts = torch.tensor([len(document) for document in documents])
    mask = torch.arange(int(counts.max())) < counts[:, None]  # (b, s)
    padded = torch.full((*mask.shape, sentences.shape[1]), PAD)  # (b, s, n)
    padded[mask] = sentences
    return padded
