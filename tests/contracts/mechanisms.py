"""A row for every mechanism: how to build it, and the sizes of its query and its source."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from companion import attention


class Row(NamedTuple):
    build: Callable[[], attention.Attention]
    query_size: int
    source_size: int
    promises_not: tuple[str, ...] = ()  # tests of what its equations do not promise


SOFTMAX = (
    "test_weights_are_the_masked_softmax_of_the_scores_and_forward_is_their_average"
)
SUM = "test_rows_sum_to_one_or_are_zero"
PERMUTED = "test_permuting_the_keys_permutes_the_weights"
SOURCE_SIZE = (
    "test_a_source_of_another_size_than_announced_is_an_error_with_the_numbers"
)
CONTENT = "test_the_score_depends_on_query_and_key"
QUERY_SIZE = "test_a_query_of_another_size_than_announced_is_an_error_with_the_numbers"
UNCONDITIONAL = (PERMUTED, SOURCE_SIZE, CONTENT, QUERY_SIZE)
CAUSAL = (SOFTMAX, PERMUTED)
MECHANISMS = {
    "additive": Row(lambda: attention.Additive(11, 13, 17), 11, 13),
    "gumbel": Row(
        lambda: attention.GumbelSoftmax(attention.Additive(11, 13, 17)).eval(), 11, 13
    ),
    "location": Row(
        lambda: attention.LocationSensitive(11, 13, 17, channels=19, width=23), 11, 13
    ),
    "smooth location": Row(
        lambda: attention.SmoothLocationSensitive(11, 13, 17, channels=19, width=23),
        11,
        13,
    ),
    "dot": Row(attention.Dot, 11, 11),
    "scaled dot": Row(attention.ScaledDot, 11, 11),
    "cosine": Row(lambda: attention.Cosine(strength=3.0), 11, 11),
    "bilinear": Row(lambda: attention.Bilinear(11, 13), 11, 13),
    "concat": Row(lambda: attention.Concat(11, 13, 17), 11, 13),
    "hidden dot": Row(lambda: attention.HiddenDot(11), 11, 11),
    "hidden dot of two sizes": Row(
        lambda: attention.HiddenDot(13, query_size=11), 11, 13
    ),
    "mlp": Row(lambda: attention.MLP(11, 13, 17, layers=3), 11, 13),
    "aligned": Row(lambda: attention.AlignedQuestionAttention(11, 17), 11, 11),
    # Here their patterns hold every key; tests/attention/test_sparse.py has others.
    "local": Row(lambda: attention.LocalAttention(7), 11, 11),
    "atrous": Row(lambda: attention.AtrousAttention(1), 11, 11),
    "sparse": Row(lambda: attention.SparseAttention(1, 1), 11, 11),
    "dense": Row(
        lambda: attention.DenseSynthesizer(11, 7), 11, 13, (PERMUTED, SOURCE_SIZE)
    ),
    "factorized dense": Row(
        lambda: attention.FactorizedDense(11, 2, 4), 11, 13, (PERMUTED, SOURCE_SIZE)
    ),
    "random": Row(lambda: attention.RandomSynthesizer(7), 11, 13, UNCONDITIONAL),
    "fixed random": Row(lambda: attention.FixedRandom(7), 11, 13, UNCONDITIONAL),
    "factorized random": Row(
        lambda: attention.FactorizedRandom(7, 2), 11, 13, UNCONDITIONAL
    ),
    "mixture": Row(
        lambda: attention.Mixture(
            attention.ScaledDot(),
            attention.DenseSynthesizer(11, 7),
            attention.RandomSynthesizer(7),
        ),
        11,
        11,
        (PERMUTED,),
    ),
    "luong location": Row(
        lambda: attention.Location(11, 7), 11, 13, (PERMUTED, SOURCE_SIZE)
    ),
    "local-m": Row(lambda: attention.LocalM(attention.Bilinear(11, 13), 7), 11, 13),
    "local-p": Row(
        lambda: attention.LocalP(attention.Bilinear(11, 13), 7, 11),
        11,
        13,
        (SOFTMAX, SUM, PERMUTED),
    ),
    # rotated in pairs of features
    "rotary": Row(lambda: attention.Rotary(attention.ScaledDot()), 12, 12, (PERMUTED,)),
    "rotary window": Row(
        lambda: attention.Rotary(attention.LocalAttention(7)),
        12,
        12,
        (PERMUTED,),
    ),
    "yarn": Row(
        lambda: attention.Rotary(
            attention.ScaledDot(),
            frequencies=attention.yarn_frequencies(
                attention.rotary_frequencies(12), scale=4, trained=20
            ),
        ),
        12,
        12,
        (PERMUTED,),
    ),
    "linear bias": Row(lambda: attention.LinearBias(0.3), 11, 11, (PERMUTED,)),
    "query-key norm": Row(
        lambda: attention.QueryKeyNorm(11, attention.ScaledDot()), 11, 11
    ),
    "query-key norm, rotary": Row(
        lambda: attention.QueryKeyNorm(12, attention.Rotary(attention.ScaledDot())),
        12,
        12,
        (PERMUTED,),
    ),
    # the last features of a key are gates
    "decay": Row(lambda: attention.DecayAttention(0.7, chunk=3), 11, 11, CAUSAL),
    "gated decay": Row(lambda: attention.GatedDecayAttention(chunk=3), 11, 12, CAUSAL),
    "delta": Row(lambda: attention.DeltaAttention(chunk=3), 11, 12, (SUM, *CAUSAL)),
    "gated delta": Row(
        lambda: attention.GatedDeltaAttention(chunk=3), 11, 13, (SUM, *CAUSAL)
    ),
    "block selection": Row(
        lambda: attention.BlockSelectionAttention(2, 1, 2),
        11,
        11,
        (SOFTMAX, SUM, PERMUTED),
    ),
    "linear": Row(attention.LinearAttention, 11, 11),
    "linear, relu": Row(lambda: attention.LinearAttention(torch.relu), 11, 11),
}
