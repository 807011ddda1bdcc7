"""The models of the translation experiments, each with its own sub-command and options."""

from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser, Namespace
from collections.abc import Callable

from companion import bahdanau, seq2seq
from companion.experiments.arguments import positive
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
    lstm.add_argument("--layers", type=positive, default=2, help="LSTMs on top of each other, on both sides")
    add_model("bahdanau", build_bahdanau)
