"""What the recurrent encoder–decoders share: a recurrence that skips padding, and the deep output layer."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from companion.attention import check_positive
from companion.data.vocabulary import PAD


def source_mask(source: Int[Tensor, "b k"]) -> Bool[Tensor, "b k"]:
    """Where the source has words: ``True`` for a token, ``False`` for padding.

    Raises:
        ValueError: there is no sentence, one is empty, or one has padding before a word.
    """
    if source.numel() == 0:
        raise ValueError(f"a source of shape {tuple(source.shape)} has no words")
    mask = source != PAD
    lengths = mask.sum(1)
    from_the_left = torch.arange(source.shape[1], device=source.device) < lengths[:, None]
    sound = (mask == from_the_left).all(1) & (lengths > 0)
    if not sound.all():
        rows = (~sound).nonzero().flatten().tolist()
        raise ValueError(
            f"in a source of {tuple(source.shape)} the rows {rows} are empty, or have padding before a word"
        )
    return mask


def check_target(target: Int[Tensor, "b t"], hidden: Float[Tensor, "s h"]) -> None:
    """Raise a ``ValueError`` unless a target has words, and as many sentences as the state has."""
    if target.shape[1] == 0 or len(target) != len(hidden):
        raise ValueError(
            f"a target of shape {tuple(target.shape)} does not fit {len(hidden)} source sentences"
        )


def run_packed(
    rnn: nn.GRU | nn.LSTM, inputs: Float[Tensor, "b k d"], mask: Bool[Tensor, "b k"]
) -> tuple[Float[Tensor, "b k h"], Tensor | tuple[Tensor, Tensor]]:
    """Run a recurrence over each sentence and never over its padding.

    Returns the states, zero at the padding, and what the network calls its final state: the one after the
    last word of each sentence. A backward direction starts at the last word.
    """
    packed = pack_padded_sequence(inputs, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
    states, final = rnn(packed)
    return pad_packed_sequence(states, batch_first=True, total_length=inputs.shape[1])[0], final


class DeepOutput(nn.Module):
    """The scores of the next word, by one hidden layer of maxout units.

    ::

        t̃ = U_o s + V_o y + C_o c
        t = [max(t̃_1, t̃_2), max(t̃_3, t̃_4), …]
        logits = W_o t

    Source: Bahdanau et al. 2015, appendix A.2.2; the same in Cho et al. 2014, appendix A.1.2. Our ``state``,
    ``embedded`` and ``context`` are the papers' s, E y and c; ``size`` is l, the number of maxout units.
    U_o, V_o and C_o stand side by side in one matrix. Deviation: a bias in both layers.
    """

    def __init__(
        self, state_size: int, embedding_size: int, context_size: int, size: int, vocabulary_size: int
    ):
        super().__init__()
        check_positive(size=size, vocabulary_size=vocabulary_size)
        self.hidden = nn.Linear(state_size + embedding_size + context_size, 2 * size)
        self.W = nn.Linear(size, vocabulary_size)

    def forward(
        self,
        state: Float[Tensor, "*b s"],
        embedded: Float[Tensor, "*b e"],
        context: Float[Tensor, "*b c"],
    ) -> Float[Tensor, "*b vocabulary"]:
        """Unnormalised log-probabilities of the next word, for one step or for all steps at once."""
        pairs = self.hidden(torch.cat([state, embedded, context], -1)).unflatten(-1, (-1, 2))
        return self.W(pairs.amax(-1))
