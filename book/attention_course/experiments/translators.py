"""The models of the translation experiment, each with its own sub-command."""

from argparse import ArgumentParser, Namespace

from attention_course.data.vocabulary import PAD
from attention_course.experiments.command_line import add_models, positive
from companion.attention.additive import Additive
from companion.attention.base import Attention
from companion.attention.local import LocalP
from companion.attention.scores import Bilinear, Dot
from companion.layers.residual import PreNorm
from companion.models.bahdanau import BahdanauDecoder, BahdanauEncoder
from companion.models.convs2s import ConvS2S
from companion.models.luong import InputFeedingDecoder, LuongDecoder, LuongEncoder
from companion.models.seq2seq import (
    ChoDecoder,
    ChoEncoder,
    EncoderDecoder,
    SutskeverDecoder,
    SutskeverEncoder,
)
from companion.models.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)


def build_gru(source: int, target: int, arguments: Namespace) -> EncoderDecoder:
    """Cho's GRU encoder and decoder, without attention."""
    embedding, hidden = arguments.embedding, arguments.hidden
    dropout = arguments.dropout
    return EncoderDecoder(
        ChoEncoder(source, embedding, hidden, dropout, pad=PAD),
        ChoDecoder(target, embedding, hidden, hidden, dropout),
    )


def build_lstm(source: int, target: int, arguments: Namespace) -> EncoderDecoder:
    """Sutskever's deep LSTM, which reads the source in reverse, without attention."""
    sizes = arguments.embedding, arguments.hidden, arguments.layers, arguments.dropout
    return EncoderDecoder(
        SutskeverEncoder(source, *sizes, pad=PAD),
        SutskeverDecoder(target, *sizes),
    )


def build_bahdanau(source: int, target: int, arguments: Namespace) -> EncoderDecoder:
    """Bahdanau's encoder and decoder, with as many attention units as hidden units."""
    embedding, hidden = arguments.embedding, arguments.hidden
    dropout = arguments.dropout
    attention = Additive(hidden, 2 * hidden, hidden)
    return EncoderDecoder(
        BahdanauEncoder(source, embedding, hidden, dropout, pad=PAD),
        BahdanauDecoder(target, embedding, hidden, 2 * hidden, attention, dropout),
    )


def build_luong_dot(source: int, target: int, arguments: Namespace) -> EncoderDecoder:
    """Luong's global attention with the dot score and input feeding."""
    return _luong(source, target, Dot(), arguments)


def build_luong_general(
    source: int, target: int, arguments: Namespace
) -> EncoderDecoder:
    """Luong's global attention with the general score and input feeding."""
    attention = Bilinear(arguments.hidden, arguments.hidden)
    return _luong(source, target, attention, arguments)


def build_luong_general_no_feeding(
    source: int, target: int, arguments: Namespace
) -> EncoderDecoder:
    """Luong's global attention with the general score, without input feeding."""
    attention = Bilinear(arguments.hidden, arguments.hidden)
    return _luong(source, target, attention, arguments, LuongDecoder)


def build_luong_local_p(
    source: int, target: int, arguments: Namespace
) -> EncoderDecoder:
    """Luong's local attention with a predicted position (local-p), his best model."""
    general = Bilinear(arguments.hidden, arguments.hidden)
    attention = LocalP(general, arguments.radius, arguments.hidden)
    return _luong(source, target, attention, arguments)


def _luong(
    source: int,
    target: int,
    attention: Attention,
    arguments: Namespace,
    decoder: type[LuongDecoder] = InputFeedingDecoder,
) -> EncoderDecoder:
    embedding, hidden = arguments.embedding, arguments.hidden
    layers, dropout = arguments.layers, arguments.dropout
    return EncoderDecoder(
        LuongEncoder(source, embedding, hidden, layers, dropout, pad=PAD),
        decoder(target, embedding, hidden, attention, layers, dropout),
    )


def build_transformer(source: int, target: int, arguments: Namespace) -> EncoderDecoder:
    """The Transformer; --embedding is d_model, --hidden is d_ff."""
    sizes = (
        arguments.embedding,
        arguments.heads,
        arguments.hidden,
        arguments.layers,
        arguments.dropout,
    )
    return Transformer(source, target, *sizes, pad=PAD)


def build_transformer_pre_norm(
    source: int, target: int, arguments: Namespace
) -> EncoderDecoder:
    """The Transformer, which normalises the input of each sub-layer and not its output."""
    size, heads, dropout = arguments.embedding, arguments.heads, arguments.dropout
    options = size, heads, arguments.hidden, dropout, None, PreNorm
    depth = range(arguments.layers)
    return EncoderDecoder(
        TransformerEncoder(
            source,
            [TransformerEncoderLayer(*options) for _ in depth],
            dropout,
            pad=PAD,
        ),
        TransformerDecoder(
            target,
            [TransformerDecoderLayer(*options) for _ in depth],
            dropout,
            pad=PAD,
        ),
    )


def build_convs2s(source: int, target: int, arguments: Namespace) -> EncoderDecoder:
    """ConvS2S, whose decoder attends to the source in every layer."""
    sizes = (
        arguments.embedding,
        arguments.hidden,
        arguments.layers,
        arguments.width,
        arguments.dropout,
    )
    return ConvS2S(source, target, *sizes, pad=PAD)


def add_translators(parser: ArgumentParser, shared: ArgumentParser) -> None:
    """Give the parser a sub-command for each model, with the options of its own."""
    models = add_models(parser, shared, BUILDERS)
    for name in (
        "lstm",
        "luong-dot",
        "luong-general",
        "luong-general-no-feeding",
        "luong-local-p",
        "transformer",
        "transformer-pre-norm",
        "convs2s",
    ):
        models[name].add_argument(
            "--layers",
            type=positive,
            default=2,
            help="layers of the encoder, and of the decoder",
        )
    for name in ("transformer", "transformer-pre-norm"):
        models[name].add_argument(
            "--heads", type=positive, default=8, help="heads of each attention"
        )
    models["convs2s"].add_argument(
        "--width", type=positive, default=3, help="words in the window of a convolution"
    )
    models["luong-local-p"].add_argument(
        "--radius",
        type=positive,
        default=10,
        help="words on each side of the predicted position",
    )


#: What builds each model, from the sizes of the vocabularies and the arguments.
BUILDERS = {
    "gru": build_gru,
    "lstm": build_lstm,
    "bahdanau": build_bahdanau,
    "luong-dot": build_luong_dot,
    "luong-general": build_luong_general,
    "luong-general-no-feeding": build_luong_general_no_feeding,
    "luong-local-p": build_luong_local_p,
    "transformer": build_transformer,
    "transformer-pre-norm": build_transformer_pre_norm,
    "convs2s": build_convs2s,
}
