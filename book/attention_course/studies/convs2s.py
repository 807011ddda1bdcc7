"""The study of chapter 11 on number words: what a ConvS2S can be without.

The recorded runs train a deep ConvS2S with and without each of the paper's scalings, and one
with and without positions on numbers that are shorter than those of the test.

All runs take about six minutes on one CPU core.
"""

import math
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attention_course.data.vocabulary import PAD
from attention_course.studies.recording import check_choice, grid
from attention_course.tasks.number_translation import LENGTH_RANGES, short_numbers
from attention_course.tasks.translation import TranslationTask
from companion.layers.gated_convolution import (
    GatedConvolution,
    WeightNormLinear,
    scale_gradient,
)
from companion.layers.positional_encoding import LearnedPositionalEncoding
from companion.models.convs2s import (
    ConvS2SDecoder,
    ConvS2SDecoderLayer,
    ConvS2SEncoder,
    ConvS2SState,
)
from companion.models.seq2seq import EncoderDecoder

TITLE = "Chapter 11: number words, by a ConvS2S and by some that lack a part of it"


def build(
    source: int,
    target: int,
    dim: int,
    encoder_layers: int,
    decoder_layers: int,
    attending: Iterable[int],
    seed: int,
    dropout: float = 0.0,
) -> EncoderDecoder:
    """A ConvS2S of width 3, some of whose decoder layers attend.

    Args:
        source, target: the numbers of tokens.
        dim: of embeddings and layers.
        encoder_layers, decoder_layers: the numbers of layers.
        attending: which layers of the decoder attend, counted from 1.
        dropout: of embeddings and layers.
    """
    chosen = set(attending)
    for number in sorted(chosen):
        check_choice("a layer that attends", number, range(1, decoder_layers + 1))
    torch.manual_seed(seed)
    encoder_positions, decoder_positions = (
        LearnedPositionalEncoding(64, dim) for _ in range(2)
    )
    blocks = [GatedConvolution(dim, 3, dropout) for _ in range(encoder_layers)]
    layers = [
        ConvS2SDecoderLayer(dim, dim, 3, dropout, attends=number in chosen)
        for number in range(1, decoder_layers + 1)
    ]
    return EncoderDecoder(
        ConvS2SEncoder(source, dim, encoder_positions, blocks, dropout, pad=PAD),
        ConvS2SDecoder(target, dim, decoder_positions, layers, dropout),
    )


def parameter_count(model: nn.Module) -> int:
    """The number of parameters."""
    return sum(parameter.numel() for parameter in model.parameters())


def translator(
    task: TranslationTask,
    attending: str = "1 2 3",
    dim: int = 64,
    layers: int = 3,
    seed: int = 0,
) -> EncoderDecoder:
    """A ConvS2S for number words, with as many layers on both sides.

    Args:
        attending: which layers of the decoder attend, as in ``"1 2 3"``.
        dim: of embeddings and layers.
        layers: on each side.
    """
    chosen = map(int, attending.split())
    words = len(task.source), len(task.target)
    return build(*words, dim, layers, layers, chosen, seed)


class UnscaledConvolution(GatedConvolution):
    """A gated convolution whose residual sum is not multiplied by √½.

    ::

        y_i = A_i ∘ σ(B_i) + x_i
    """

    def forward(
        self, inputs: Float[Tensor, "b n d"], padded: Float[Tensor, "b m d"]
    ) -> Float[Tensor, "b n d"]:
        """The gated convolution over ``padded``, plus the inputs."""
        return super().forward(inputs, padded) / math.sqrt(0.5)


def remove_root(model: EncoderDecoder) -> None:
    """The residual sums without √½."""
    for module in model.modules():
        if isinstance(module, GatedConvolution):
            module.__class__ = UnscaledConvolution


def remove_gain(model: EncoderDecoder) -> None:
    """Convolutions that are initialised with the variance 1/n, and not 4/n."""
    for module in model.modules():
        if isinstance(module, GatedConvolution):
            module.convolution.gain = 1.0
            module.convolution.reset_parameters()


def remove_normalisation(model: EncoderDecoder) -> None:
    """The same initial weights, as parameters without weight normalisation."""
    for module in list(model.modules()):
        for name, layer in list(module.named_children()):
            if isinstance(layer, WeightNormLinear):
                plain = nn.Linear(layer.in_features, layer.out_features)
                plain.load_state_dict({"weight": layer.weight, "bias": layer.bias})
                setattr(module, name, plain)


def remove_gradient_scaling(model: EncoderDecoder) -> None:
    """The encoder gets the sum of the gradients of all attending layers, not the mean."""
    layers = sum(layer.attends for layer in model.decoder.layers)
    model.encoder.to_embedding.register_forward_hook(partial(_scale_states, layers))


def _scale_states(scale: float, _: nn.Module, __: Any, states: Tensor) -> Tensor:
    """A hook; a function of the module, so that the model can be copied and saved."""
    return scale_gradient(states, scale)


class PlainContextDecoder(ConvS2SDecoder):
    """A decoder whose contexts have no factor m √(1/m).

    ::

        c_i = Σ_j a_ij v_j
    """

    def start(
        self,
        states: Float[Tensor, "b k e"],
        embedded: Float[Tensor, "b k e"],
        mask: Bool[Tensor, "b k"],
    ) -> ConvS2SState:
        """Keys z and values z + e of the source, once for all steps."""
        state = super().start(states, embedded, mask)
        m = mask.sum(1).clamp(min=1)[:, None, None]  # (b, 1, 1)
        value = state.memory.value / m.sqrt()
        return state._replace(memory=state.memory._replace(value=value))


def remove_factor(model: EncoderDecoder) -> None:
    """Contexts without the factor m √(1/m)."""
    model.decoder.__class__ = PlainContextDecoder


def remove_positions(model: EncoderDecoder) -> None:
    """Position embeddings of zero, which stay zero."""
    for part in (model.encoder, model.decoder):
        nn.init.zeros_(part.position.embedding.weight)
        part.position.requires_grad_(False)


#: What a model of the paper can be without.
REMOVED: dict[str, Callable[[EncoderDecoder], None]] = {
    "nothing": lambda model: None,
    "the √½": remove_root,
    "the gain of 4": remove_gain,
    "weight normalisation": remove_normalisation,
    "gradient scaling": remove_gradient_scaling,
    "the factor m √(1/m)": remove_factor,
    "positions": remove_positions,
}
#: The ranges of French words by which exact match is split if training has few words.
SPANS = ((1, 12), (13, 14), (15, 16), (17, 20))


@cache
def number_words(most_words: int = 20) -> TranslationTask:
    """English number words and their French translations, made once.

    Args:
        most_words: the most French words of a number of the training set. Validation
            and test have numbers of all lengths.
    """
    task = short_numbers()
    training = [x for x in task.training_pairs if len(x.target) <= most_words]
    return TranslationTask(training, task.validation_pairs, task.test_pairs)


def measure(
    most_words: int,
    dim: int,
    layers: int,
    attending: str,
    without: str,
    steps: int,
    learning_rate: float,
    seed: int,
) -> dict[str, Any]:
    """Train one model; its validation losses, and its exact match on the test set.

    Args:
        most_words: the most French words of a number of the training set. With 20, that
            is all of them, exact match is that of all numbers and of each of
            :data:`~attention_course.tasks.number_translation.LENGTH_RANGES`; otherwise that of
            each of :data:`SPANS`.
        dim, layers: of the model.
        attending: which layers of the decoder attend, as in ``"1 2 3"``.
        without: a key of :data:`REMOVED`.
    """
    check_choice("without", without, REMOVED)
    task = number_words(most_words)
    model = translator(task, attending, dim, layers, seed)
    REMOVED[without](model)
    ranges = [(1, 20), *LENGTH_RANGES] if most_words == 20 else SPANS
    try:
        history = task.train(model, steps, learning_rate)
    except FloatingPointError:
        losses, test = [math.inf], [0.0 for _ in ranges]
    else:
        losses = [record["held_out_loss"] for record in history]
        test = task.exact_match(model, ranges)
    return {
        "parameters": parameter_count(model),
        "validation_loss": losses,
        "test": test,
    }


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    deep: dict[str, Any] = {
        "most_words": 20,
        "dim": 32,
        "layers": 8,
        "attending": "1 2 3 4 5 6 7 8",
        "steps": 250,
    }
    short: dict[str, Any] = {
        "most_words": 12,
        "dim": 64,
        "layers": 3,
        "attending": "1 2 3",
        "steps": 250,
        "learning_rate": 0.01,
    }
    return [
        *grid(
            **deep,
            without=[x for x in REMOVED if x not in ("the √½", "positions")],
            learning_rate=0.01,
            seed=range(3),
        ),
        *grid(**deep, without="the √½", learning_rate=[0.01, 0.001], seed=range(3)),
        *grid(**short, without=["nothing", "positions"], seed=range(3)),
    ]
