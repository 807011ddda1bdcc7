"""Tiny models in float64, one for each decoder, for the tests of whole models.

Their parameters are as large as after training, those of padding too, so that a mistake shows.
"""

import torch

from companion.attention import (
    Additive,
    Bilinear,
    Concat,
    Dot,
    LocalM,
    LocalP,
    Location,
    LocationSensitive,
    RandomSynthesizer,
    SparseAttention,
)
from companion.layers import PostNorm, PreNorm, ResetBeforeGRUCell
from companion.models import (
    BahdanauDecoder,
    BahdanauEncoder,
    Captioner,
    ChoDecoder,
    ChoEncoder,
    ConvS2S,
    CurrentStateDecoder,
    EncoderDecoder,
    FixedVectorEncoder,
    LocationSensitiveDecoder,
    LSTMEncoder,
    StateAndWordDecoder,
    SutskeverDecoder,
    SutskeverEncoder,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
    luong,
)
from companion.models import transformer as transformers

SOURCE_WORDS, TARGET_WORDS = 11, 5
EMBEDDING, HIDDEN, ENCODER, ATTENTION = 3, 4, 5, 7
MARKS = {"bos": 1, "eos": 2, "pad": 0}
STATES, RADIUS = 2 * ENCODER, 2


def doubles(*sizes, seed=0):
    """Normal random numbers in float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(sizes, generator=generator, dtype=torch.float64)


def spread(module, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.double().parameters():
        parameter.data.normal_(std=0.8, generator=generator)
    return module


def with_attention(decoder, attention, encoder=BahdanauEncoder, **options):
    return spread(
        EncoderDecoder(
            encoder(SOURCE_WORDS, EMBEDDING, ENCODER, pad=0),
            decoder(TARGET_WORDS, EMBEDDING, HIDDEN, STATES, attention, **options),
        )
    )


def bahdanau():
    return with_attention(BahdanauDecoder, Additive(HIDDEN, STATES, ATTENTION))


def fixed_vector():
    """One vector for the source, which gets all the weight."""
    attention = Additive(HIDDEN, STATES, ATTENTION)
    return with_attention(BahdanauDecoder, attention, FixedVectorEncoder)


def state_and_word():
    return with_attention(
        StateAndWordDecoder, Additive(HIDDEN + EMBEDDING, STATES, ATTENTION)
    )


def current_state():
    return with_attention(CurrentStateDecoder, Additive(HIDDEN, STATES, ATTENTION))


def local_m_bahdanau():
    return with_attention(BahdanauDecoder, LocalM(Bilinear(HIDDEN, STATES), RADIUS))


def random_bahdanau():
    return with_attention(BahdanauDecoder, RandomSynthesizer(max_length=16))


def random_current_state():
    return with_attention(CurrentStateDecoder, RandomSynthesizer(max_length=16))


def reset_before():
    attention = Additive(HIDDEN, STATES, ATTENTION)
    options = {"cell": ResetBeforeGRUCell, "maxout_size": 3}
    return with_attention(BahdanauDecoder, attention, **options)


def location():
    return with_attention(
        LocationSensitiveDecoder,
        LocationSensitive(HIDDEN, STATES, ATTENTION, channels=2, width=3),
    )


def captioner():
    return with_attention(Captioner, Additive(HIDDEN, STATES, ATTENTION))


def cho():
    return spread(
        EncoderDecoder(
            ChoEncoder(SOURCE_WORDS, EMBEDDING, ENCODER, pad=0),
            ChoDecoder(TARGET_WORDS, EMBEDDING, HIDDEN, ENCODER),
        )
    )


def with_lstm(encoder):
    return spread(
        EncoderDecoder(
            encoder(SOURCE_WORDS, EMBEDDING, HIDDEN, pad=0),
            SutskeverDecoder(TARGET_WORDS, EMBEDDING, HIDDEN),
        )
    )


def lstm():
    return with_lstm(LSTMEncoder)


def sutskever():
    return with_lstm(SutskeverEncoder)


def with_luong(attention, decoder=luong.LuongDecoder):
    return spread(
        EncoderDecoder(
            luong.LuongEncoder(SOURCE_WORDS, EMBEDDING, HIDDEN, pad=0),
            decoder(TARGET_WORDS, EMBEDDING, HIDDEN, attention),
        )
    )


def luong_dot():
    return with_luong(Dot())


def luong_general():
    return with_luong(Bilinear(HIDDEN, HIDDEN))


def luong_concat():
    return with_luong(Concat(HIDDEN, HIDDEN, ATTENTION))


def luong_random():
    return with_luong(RandomSynthesizer(max_length=16))


def luong_other_sizes():
    """The source has other states than the decoder, and the attentional state a size of its own."""
    sizes = {"source_size": STATES, "attentional_size": 3}
    return spread(
        EncoderDecoder(
            Bidirectional(SOURCE_WORDS, EMBEDDING, ENCODER, pad=0),
            luong.InputFeedingDecoder(
                TARGET_WORDS, EMBEDDING, HIDDEN, Bilinear(HIDDEN, STATES), **sizes
            ),
        )
    )


def luong_location():
    return with_luong(Location(HIDDEN, max_length=12))


def local_m():
    return with_luong(LocalM(Dot(), RADIUS))


def local_p():
    return with_luong(LocalP(Bilinear(HIDDEN, HIDDEN), RADIUS, HIDDEN))


def input_feeding():
    return with_luong(Dot(), luong.InputFeedingDecoder)


def local_m_input_feeding():
    return with_luong(
        LocalM(Bilinear(HIDDEN, HIDDEN), RADIUS), luong.InputFeedingDecoder
    )


def local_p_input_feeding():
    return with_luong(LocalP(Dot(), RADIUS, HIDDEN), luong.InputFeedingDecoder)


def transformer(residual=PostNorm, encoder_attention=None, decoder_attention=None):
    """Both sides with two layers; the attentions may be others than scaled dot-product."""
    sizes = {
        "d_model": HIDDEN,
        "heads": 2,
        "d_ff": ATTENTION,
        "dropout": 0.0,
        "residual": residual,
    }
    encoders = [
        TransformerEncoderLayer(**sizes, attention=encoder_attention) for _ in range(2)
    ]
    decoders = [
        TransformerDecoderLayer(**sizes, attention=decoder_attention) for _ in range(2)
    ]
    return spread(
        EncoderDecoder(
            transformers.TransformerEncoder(SOURCE_WORDS, encoders, 0.0, pad=0),
            transformers.TransformerDecoder(TARGET_WORDS, decoders, 0.0, pad=0),
        )
    )


def pre_norm_transformer():
    return transformer(PreNorm)


def sparse_transformer():
    """No layer attends to every token, but two layers do."""
    return transformer(
        PostNorm, SparseAttention(1, 3), SparseAttention(1, 2, causal=True)
    )


def convs2s():
    return spread(
        ConvS2S(
            SOURCE_WORDS,
            TARGET_WORDS,
            EMBEDDING,
            HIDDEN,
            2,
            3,
            dropout=0.0,
            max_length=16,
            pad=0,
        )
    )


MODELS = {
    "bahdanau": bahdanau,
    "state_and_word": state_and_word,
    "current_state": current_state,
    "local_m_bahdanau": local_m_bahdanau,
    "random_bahdanau": random_bahdanau,
    "random_current_state": random_current_state,
    "reset_before": reset_before,
    "location": location,
    "captioner": captioner,
    "cho": cho,
    "lstm": lstm,
    "sutskever": sutskever,
    "luong_dot": luong_dot,
    "luong_general": luong_general,
    "luong_concat": luong_concat,
    "luong_location": luong_location,
    "luong_random": luong_random,
    "luong_other_sizes": luong_other_sizes,
    "local_m": local_m,
    "local_p": local_p,
    "input_feeding": input_feeding,
    "local_m_input_feeding": local_m_input_feeding,
    "local_p_input_feeding": local_p_input_feeding,
    "transformer": transformer,
    "pre_norm_transformer": pre_norm_transformer,
    "sparse_transformer": sparse_transformer,
    "convs2s": convs2s,
}
GROWING = [
    "transformer",
    "pre_norm_transformer",
    "sparse_transformer",
]  # with the sentence, so does the state
SILENT = {"cho", "lstm", "sutskever", "convs2s", *GROWING}
ATTENTIVE = sorted(set(MODELS) - SILENT)  # a step returns attention weights
GLOBAL = [
    name for name in ATTENTIVE if not name.startswith("local_")
]  # every token has some weight
# Without nn.GRU and nn.LSTM, which do not compile; sparse attention does in tests/attention/test_sparse.py.
COMPILED = [
    "bahdanau",
    "local_m_bahdanau",
    "random_bahdanau",
    "reset_before",
    "captioner",
    "convs2s",
    "current_state",
    "location",
    "state_and_word",
    *GROWING[:2],
]

# Sentences of different length, and targets that end before their padding.
SOURCE = torch.tensor(
    [[5, 9, 4, 10, 2, 0, 0], [3, 2, 0, 0, 0, 0, 0], [8, 4, 4, 7, 6, 5, 2]]
)
TARGET = torch.tensor([[1, 4, 3, 4, 0], [1, 3, 0, 0, 0], [1, 4, 4, 3, 3]])


class Bidirectional(BahdanauEncoder):
    """An encoder for Luong's decoder whose states are larger than the decoder's; it starts from zero."""

    def forward(self, source):
        states, mask = super().forward(source)
        zeros = states.new_zeros(states.shape[0], 2, HIDDEN)
        return states, mask, zeros, zeros


def sentences(batch):
    """Each row without its padding."""
    return [row[row != 0] for row in batch]


def close(found, expected):
    expected = (
        expected.detach()
        if isinstance(expected, torch.Tensor)
        else torch.tensor(expected, dtype=torch.float64)
    )
    torch.testing.assert_close(
        found.detach(), expected.to(found.dtype), atol=1e-10, rtol=1e-10
    )
