"""A language model: predicts each token from those before it, by causal attention."""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from companion._checks import check_kind, check_next, check_same_position
from companion.decoding.state import DecoderStep, tensors
from companion.layers.embedding import ScaledEmbedding
from companion.layers.positional_encoding import SinusoidalPositionalEncoding
from companion.models.transformer import CausalTransformerLayer


class LanguageModel(nn.Module):
    """A stack of causal Transformer layers that predicts the next token.

    ::

        x = position(embedding(tokens)),   x ← layer(x) for each layer
        logits = W x + b,   at each position those of the next token

    Between two steps a layer keeps what its attention needs: all keys and values, those
    of a window, or a matrix.

    :func:`~companion.decoding.sampling.generate` continues prompts. No token is special:
    a text without a prompt begins with whatever the texts of the training begin with.
    The searches of :mod:`companion.decoding`, such as ``beam_search(model.step,
    model.start(prompt), …, bos=bos)``, give the model ``bos`` as the prompt's last token.

    Args:
        vocabulary_size: number of tokens.
        layers: all with the same ``d_model``.
        position: a module of :mod:`companion.layers.positional_encoding`; sinusoids by
            default. Where the attentions know positions by themselves, such as
            :class:`~companion.attention.rotary.Rotary`, it is
            :class:`~companion.layers.positional_encoding.NoPositionalEncoding`.

    Example:
        >>> layer = CausalTransformerLayer(d_model=8, heads=2, d_ff=32)
        >>> LanguageModel(11, [layer])(torch.tensor([[1, 5, 6]])).shape
        torch.Size([1, 3, 11])
    """

    def __init__(
        self,
        vocabulary_size: int,
        layers: Sequence[CausalTransformerLayer],
        position: nn.Module | None = None,
    ):
        super().__init__()
        for layer in layers:
            check_kind(self, layer, CausalTransformerLayer)
        d_model = layers[0].d_model
        self.embedding = ScaledEmbedding(vocabulary_size, d_model)
        self.position = SinusoidalPositionalEncoding() if position is None else position
        self.layers: Any = nn.ModuleList(layers)
        self.norm = layers[-1].attention_residual.final_norm()
        self.output = nn.Linear(d_model, vocabulary_size)

    def forward(self, tokens: Int[Tensor, "b n"]) -> Float[Tensor, "b n vocabulary"]:
        """The logits after each token."""
        x = self.position(self.embedding(tokens))  # (b, n, d)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))

    def start(self, prompt: Int[Tensor, "b n"]) -> tuple[Any, ...]:
        """The state after a prompt for each sentence, all of one length, which may be 0."""
        x = self.embedding(prompt[:, :0])
        state = tuple(layer.attention.start(x) for layer in self.layers)
        return self.run(prompt, state)[1] if prompt.shape[1] else state

    def run(
        self, tokens: Int[Tensor, "b n"], state: tuple[Any, ...]
    ) -> tuple[Float[Tensor, "b n vocabulary"], tuple[Any, ...]]:
        """The logits after each of ``tokens``, which follow those in the state."""
        check_same_position([past.seen for past in state])
        x = self.position(self.embedding(tokens), state[0].seen)  # (b, n, d)
        after = []
        for layer, past in zip(self.layers, state, strict=True):
            x, past = layer.extend(x, past)
            after.append(past)
        return self.output(self.norm(x)), tuple(after)

    def step(self, token: Int[Tensor, " b"], state: tuple[Any, ...]) -> DecoderStep:
        """The logits after ``token``, computed from the state."""
        check_next(token, tensors(state[0])[0])  # of the first layer
        logits, state = self.run(token[:, None], state)
        return DecoderStep(logits.squeeze(1), state, None)
