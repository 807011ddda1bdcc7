"""An attention of the wrong kind is refused where it is built in, not at the first call."""

import pytest
from torch import nn

from companion.attention import (
    Additive,
    AttentionPooling,
    Dot,
    FactorizedRandom,
    GumbelSoftmax,
    HardAttention,
    LocalAttention,
    LocalM,
    LocalP,
    Mixture,
    MultiHeadAttention,
    PatternAttention,
    RandomSynthesizer,
)
from companion.attention.masks import causal
from companion.models import (
    BahdanauDecoder,
    Captioner,
    CurrentStateDecoder,
    HardCaptioner,
    StateAndWordDecoder,
    luong,
    to_hard_attention,
)

PLACED = {
    "LocalM": lambda: LocalM(Additive(4, 6, 7), 1),
    "LocalAttention": lambda: LocalAttention(1),
    "PatternAttention": lambda: PatternAttention(causal()),
    "Random": lambda: RandomSynthesizer(9),
    "FactorizedRandom": lambda: FactorizedRandom(9, 2),
}
ONE_BY_ONE = {
    "Decoder": lambda attention: BahdanauDecoder(5, 3, 4, 6, attention),
    "StateAndWordDecoder": lambda attention: StateAndWordDecoder(5, 3, 4, 6, attention),
    "CurrentStateDecoder": lambda attention: CurrentStateDecoder(5, 3, 4, 6, attention),
    "Captioner": lambda attention: Captioner(5, 3, 4, 6, attention),
    "HardCaptioner": lambda attention: HardCaptioner(
        5, 3, 4, 6, HardAttention(attention)
    ),
    "AttentionPooling": lambda attention: AttentionPooling(attention, 4),
}


@pytest.mark.parametrize("name", PLACED)
@pytest.mark.parametrize("owner", ONE_BY_ONE)
def test_one_query_alone_does_not_tell_its_place(owner, name):
    placed = PLACED[name]()
    for attention in [placed] if placed.hides else [placed, GumbelSoftmax(placed)]:
        with pytest.raises(
            TypeError, match=f"^{owner} asks one query at a time, but {name} goes by"
        ):
            ONE_BY_ONE[owner](attention)
    assert ONE_BY_ONE[owner](LocalP(Additive(4, 6, 7), 1, 4))


@pytest.mark.parametrize("kind", [luong.LuongDecoder, luong.InputFeedingDecoder])
def test_luongs_decoders_say_the_place_to_a_window_alone(kind):
    for name in set(PLACED) - {"LocalM"}:
        with pytest.raises(
            TypeError,
            match=f"^{kind.__name__} asks one query at a time, but {name} goes by",
        ):
            kind(5, 3, 4, PLACED[name]())
    with pytest.raises(TypeError, match="Random goes by its place"):
        kind(5, 3, 4, GumbelSoftmax(RandomSynthesizer(9)))
    assert kind(5, 3, 4, LocalM(Dot(), 1)).attention.radius == 1


@pytest.mark.parametrize(
    ("owner", "build"), {"GumbelSoftmax": GumbelSoftmax, "Mixture": Mixture}.items()
)
@pytest.mark.parametrize("name", ["LocalM", "LocalAttention", "PatternAttention"])
def test_what_hides_keys_by_itself_is_not_asked_for_its_scores_alone(
    owner, build, name
):
    with pytest.raises(
        TypeError, match=f"^{owner} uses scores alone, and would show what {name} hides"
    ):
        build(PLACED[name]())


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "wrong", [lambda: HardAttention(Dot()), lambda: nn.Linear(4, 4)]
)
@pytest.mark.parametrize(
    ("owner", "build"),
    [
        ("HardAttention", HardAttention),
        ("GumbelSoftmax", GumbelSoftmax),
        ("LocalM", lambda attention: LocalM(attention, 1)),
        ("Decoder", lambda attention: luong.LuongDecoder(5, 3, 4, attention)),
        ("MultiHeadAttention", lambda attention: MultiHeadAttention(8, 2, attention)),
        ("Mixture", lambda attention: Mixture(Dot(), attention)),
        ("AttentionPooling", lambda attention: AttentionPooling(attention, 4)),
    ],
)
def test_what_is_no_attention_is_refused(owner, build, wrong):
    with pytest.raises(
        TypeError, match=f"^{owner} needs Attention, not {type(wrong()).__name__}"
    ):
        build(wrong())


@pytest.mark.usefixtures("unchecked")
def test_what_is_hard_is_not_hardened_again():
    hard = HardCaptioner(5, 3, 4, 6, HardAttention(Additive(4, 6, 7)))
    with pytest.raises(
        TypeError, match="HardAttention needs Attention, not HardAttention"
    ):
        to_hard_attention(hard)
