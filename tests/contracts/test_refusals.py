"""An attention that a module cannot use is refused by its constructor, not at the first call."""

import pytest
from torch import nn

from companion.attention import (
    Additive,
    AtrousAttention,
    AttentionPooling,
    Dot,
    FactorizedRandom,
    FixedRandom,
    GumbelSoftmax,
    HalfAndHalf,
    HardAttention,
    LocalAttention,
    LocalM,
    LocalP,
    Location,
    Mixture,
    MultiHeadAttention,
    PatternAttention,
    RandomSynthesizer,
    StraightThroughGumbel,
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

POSITIONED = {
    "LocalM": lambda: LocalM(Additive(4, 6, 7), 1),
    "LocalAttention": lambda: LocalAttention(1),
    "PatternAttention": lambda: PatternAttention(causal()),
    "RandomSynthesizer": lambda: RandomSynthesizer(9),
    "FixedRandom": lambda: FixedRandom(9),
    "FactorizedRandom": lambda: FactorizedRandom(9, 2),
}
MASKING = {
    "LocalM": lambda: LocalM(Dot(), 1),
    "LocalP": lambda: LocalP(Dot(), 1, 4),
    "LocalAttention": lambda: LocalAttention(1),
    "AtrousAttention": lambda: AtrousAttention(2),
    "PatternAttention": lambda: PatternAttention(causal()),
}
DECODERS = {
    "BahdanauDecoder": lambda attention: BahdanauDecoder(5, 3, 4, 6, attention),
    "StateAndWordDecoder": lambda attention: StateAndWordDecoder(5, 3, 4, 6, attention),
    "CurrentStateDecoder": lambda attention: CurrentStateDecoder(5, 3, 4, 6, attention),
    "Captioner": lambda attention: Captioner(5, 3, 4, 6, attention),
    "HardCaptioner": lambda attention: HardCaptioner(
        5, 3, 4, 6, HardAttention(attention)
    ),
    "LuongDecoder": lambda attention: luong.LuongDecoder(5, 3, 4, attention),
    "InputFeedingDecoder": lambda attention: luong.InputFeedingDecoder(
        5, 3, 4, attention
    ),
}
USE_SCORES_ALONE = {
    "GumbelSoftmax": GumbelSoftmax,
    "Mixture": lambda x: Mixture(Dot(), x),
}


@pytest.mark.parametrize("name", POSITIONED)
def test_pooling_refuses_what_depends_on_the_query_position(name):
    attention = POSITIONED[name]()
    hidden = [] if attention.has_own_weights else [GumbelSoftmax(attention)]
    for refused in (attention, *hidden):
        with pytest.raises(
            TypeError,
            match=f"^AttentionPooling cannot use {type(refused).__name__}, which depends "
            "on the query's position: its learned query has none$",
        ):
            AttentionPooling(refused, 4)


def test_pooling_takes_what_depends_on_the_keys_positions_alone():
    for attention in (LocalP(Additive(4, 6, 7), 1, 4), Location(4, 9)):
        assert not attention.uses_query_position
        AttentionPooling(attention, 4)


@pytest.mark.parametrize("name", POSITIONED)
@pytest.mark.parametrize("decoder", DECODERS)
def test_decoders_take_what_depends_on_the_query_position(decoder, name):
    """Each step of a decoder has its position."""
    assert DECODERS[decoder](POSITIONED[name]()).attention is not None


@pytest.mark.parametrize(("owner", "build"), USE_SCORES_ALONE.items())
@pytest.mark.parametrize("name", MASKING)
def test_what_uses_scores_alone_refuses_what_masks_by_a_rule_of_its_own(
    owner, build, name
):
    with pytest.raises(
        TypeError,
        match=f"^{owner} cannot use {name}, which has weights that are not the softmax",
    ):
        build(MASKING[name]())


@pytest.mark.parametrize("name", ["RandomSynthesizer", "LocalM", "Location"])
def test_a_window_refuses_scores_that_depend_on_positions(name):
    builders = {**POSITIONED, "Location": lambda: Location(4, 9)}
    with pytest.raises(TypeError, match=f"^LocalP cannot use {name}, which depends on"):
        LocalP(builders[name](), 1, 4)


@pytest.mark.parametrize("owner", [HardAttention, HalfAndHalf])
def test_hard_attention_refuses_weights_that_are_no_distribution(owner):
    with pytest.raises(
        TypeError,
        match=f"^{owner.__name__} cannot use LocalP, which has weights whose sum is not 1",
    ):
        owner(LocalP(Dot(), 1, 4))


@pytest.mark.parametrize(
    ("owner", "build"), [("LocalM", lambda x: LocalM(x, 1)), *USE_SCORES_ALONE.items()]
)
@pytest.mark.parametrize("inner", [GumbelSoftmax, StraightThroughGumbel])
def test_what_uses_scores_alone_refuses_what_changes_their_softmax(owner, build, inner):
    with pytest.raises(
        TypeError,
        match=f"^{owner} cannot use {inner.__name__}, which has weights that are not the "
        "softmax of its scores: ",
    ):
        build(inner(Dot()))


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
        ("LuongDecoder", DECODERS["LuongDecoder"]),
        ("MultiHeadAttention", lambda attention: MultiHeadAttention(8, 2, attention)),
        ("Mixture", lambda attention: Mixture(Dot(), attention)),
        ("AttentionPooling", lambda attention: AttentionPooling(attention, 4)),
    ],
)
def test_a_module_that_is_not_an_attention_is_refused(owner, build, wrong):
    with pytest.raises(
        TypeError, match=f"^{owner} needs Attention, not {type(wrong()).__name__}"
    ):
        build(wrong())


@pytest.mark.usefixtures("unchecked")
def test_a_captioner_with_hard_attention_is_not_made_hard_again():
    hard = HardCaptioner(5, 3, 4, 6, HardAttention(Additive(4, 6, 7)))
    with pytest.raises(
        TypeError, match="HardAttention needs Attention, not HardAttention"
    ):
        to_hard_attention(hard)
