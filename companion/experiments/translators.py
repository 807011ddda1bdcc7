"""The models of the translation experiments, each with its own sub-command and options."""

from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser, Namespace
from collections.abc import Callable

from companion import bahdanau, luong, seq2seq, transformer
from companion.attention import Attention
from companion.experiments.arguments import positive
from companion.local import LocalP
from companion.scores import Bilinear, Dot
from companion.seq2seq import EncoderDecoder

Build = Callable[[int, int, Namespace], EncoderDecoder]


def build_gru(source_size: int, target_size: int, arguments: Namespace) -> EncoderDecoder:
    """Cho's GRU encoder and decoder, without attention."""
    embedding, hidden, dropout = arguments.embedding, arguments.hidden, arguments.dropout
    return EncoderDecoder(
        seq2seq.ChoEncoder(source_size, embedding, hidden, dropout),
        seq2seq.ChoDecoder(target_size, embedding, hidden, hidden, dropout),
    )


def build_lstm(source_size: int, target_size: int, arguments: Namespace) -> EncoderDecoder:
    """Sutskever's deep LSTM, which reads the source backwards, without attention."""
    sizes = arguments.embedding, arguments.hidden, arguments.layers, arguments.dropout
    return EncoderDecoder(
        seq2seq.SutskeverEncoder(source_size, *sizes), seq2seq.SutskeverDecoder(target_size, *sizes)
    )


def build_bahdanau(source_size: int, target_size: int, arguments: Namespace) -> EncoderDecoder:
    """Bahdanau's encoder and decoder, with as many units of attention as hidden ones."""
    embedding, hidden, dropout = arguments.embedding, arguments.hidden, arguments.dropout
    attention = bahdanau.Additive(hidden, 2 * hidden, hidden)
    return EncoderDecoder(
        bahdanau.Encoder(source_size, embedding, hidden, dropout),
        bahdanau.Decoder(target_size, embedding, hidden, 2 * hidden, attention, dropout),
    )


def build_luong_dot(source_size: int, target_size: int, arguments: Namespace) -> EncoderDecoder:
    """Luong's global attention by dot products, with input feeding."""
    return _luong(source_size, target_size, Dot(), arguments)


def build_luong_general(source_size: int, target_size: int, arguments: Namespace) -> EncoderDecoder:
    """Luong's global attention with a matrix between query and key, with input feeding."""
    attention = Bilinear(arguments.hidden, arguments.hidden)
    return _luong(source_size, target_size, attention, arguments)


def build_luong_local_p(source_size: int, target_size: int, arguments: Namespace) -> EncoderDecoder:
    """The same in a window around a predicted position, the paper's best model."""
    general = Bilinear(arguments.hidden, arguments.hidden)
    attention = LocalP(general, arguments.radius, arguments.hidden)
    return _luong(source_size, target_size, attention, arguments)


def _luong(source_size: int, target_size: int, attention: Attention, arguments: Namespace) -> EncoderDecoder:
    embedding, hidden = arguments.embedding, arguments.hidden
    layers, dropout = arguments.layers, arguments.dropout
    decoder = luong.InputFeedingDecoder(target_size, embedding, hidden, attention, layers, dropout)
    return EncoderDecoder(luong.Encoder(source_size, embedding, hidden, layers, dropout), decoder)


def build_transformer(source_size: int, target_size: int, arguments: Namespace) -> EncoderDecoder:
    """The Transformer; --embedding is the size of its layers, --hidden that inside their FFN."""
    sizes = arguments.embedding, arguments.heads, arguments.hidden, arguments.layers, arguments.dropout
    return transformer.Transformer(source_size, target_size, *sizes)


def add_models(parser: ArgumentParser, shared: ArgumentParser) -> None:
    """Give the parser a sub-command for each model; it leaves the model's builder in ``build``."""
    models = parser.add_subparsers(dest="model", metavar="MODEL", required=True, help="what to train")

    def add_model(name: str, build: Build) -> ArgumentParser:
        model = models.add_parser(
            name,
            parents=[shared],
            help=build.__doc__,
            description=build.__doc__,
            formatter_class=ArgumentDefaultsHelpFormatter,
        )
        model.set_defaults(build=build)
        return model

    add_model("gru", build_gru)
    lstm = add_model("lstm", build_lstm)
    add_model("bahdanau", build_bahdanau)
    dot = add_model("luong-dot", build_luong_dot)
    general = add_model("luong-general", build_luong_general)
    local_p = add_model("luong-local-p", build_luong_local_p)
    heads = add_model("transformer", build_transformer)
    for deep in (lstm, dot, general, local_p, heads):
        deep.add_argument(
            "--layers", type=positive, default=2, help="layers on top of each other, on both sides"
        )
    heads.add_argument("--heads", type=positive, default=8, help="heads of each attention")
    local_p.add_argument("--radius", type=positive, default=10, help="words to each side of the position")
