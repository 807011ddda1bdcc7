"""Attention-based models for speech recognition (Chorowski et al. 2015): a look depends on the last one."""

from jaxtyping import Float
from torch import Tensor, nn

from companion.attention import check_positive
from companion.bahdanau import Additive, Decoder, DecoderState


class LocationSensitive(Additive):
    """Additive scores that also see where the last look fell.

    ::

        f_i = F * α_{i−1},   e_ij = vᵀ tanh(W s_{i−1} + U h_j + L f_ij + b)

    Source: Chorowski et al. 2015, equations (8) and (9); our U and L are the paper's V and U. ``F`` holds
    ``channels`` filters of ``width`` positions. Beyond both ends of the source the weights count as zero.
    The last term enters before the score, by :meth:`locate`, which a decoder must call: without it the scores
    are additive. The paper's w is our v.

    Raises:
        ValueError: a size is below 1, or ``width`` is even, so that a filter has no middle.
    """

    def __init__(self, query_size: int, key_size: int, size: int, channels: int, width: int):
        super().__init__(query_size, key_size, size)
        check_positive(channels=channels)
        if width < 1 or width % 2 == 0:
            raise ValueError(
                f"the width must be odd and at least 1, so that a filter has a middle, not {width}"
            )
        self.F = nn.Conv1d(1, channels, width, padding=width // 2, bias=False)
        self.L = nn.Linear(channels, size)

    def locate(self, key: Float[Tensor, "b k d"], previous: Float[Tensor, "b k"]) -> Float[Tensor, "b k d"]:
        """The keys ``U h_j``, each with ``L f_ij + b`` added: marked with where the last look fell."""
        if previous.shape[-1] != key.shape[-2]:
            raise ValueError(f"{previous.shape[-1]} previous weights do not fit {key.shape[-2]} keys")
        return key + self.L(self.F(previous[:, None]).mT)


class LocationDecoder(Decoder):
    """Bahdanau's decoder with :class:`LocationSensitive` attention. Before the first look, α_0 = 0.

    Source: Chorowski et al. 2015, for the attention; the decoder around it is Bahdanau's.

    Raises:
        ValueError: as :class:`~companion.bahdanau.Decoder`.
        TypeError: the attention is another one.
    """

    needs = LocationSensitive
    attention: LocationSensitive

    def advance(
        self, embedded: Float[Tensor, "b e"], state: DecoderState
    ) -> tuple[Float[Tensor, "b h"], DecoderState]:
        """As Bahdanau's, over keys that are marked with the last look."""
        marked = state.memory._replace(key=self.attention.locate(state.memory.key, state.weights))
        hidden, after = super().advance(embedded, state._replace(memory=marked))
        return hidden, after._replace(memory=state.memory)
