import pytest
import torch
from torch.nn.functional import cross_entropy

from companion.attention import AtrousAttention, LocalAttention, PatternAttention
from companion.attention.masks import causal
from companion.layers import PreNorm
from companion.models import LanguageModel, TransformerEncoderLayer
from companion.training import next_token_loss

TOKENS = torch.randint(1, 11, (2, 7), generator=torch.Generator().manual_seed(0))


def layer(attention, size=8):
    return TransformerEncoderLayer(size, 2, 13, 0.0, attention, PreNorm)


def model(*attentions):
    torch.manual_seed(0)
    return LanguageModel(11, [layer(attention) for attention in attentions]).double()


def test_scores_of_every_token_at_every_place():
    assert model(LocalAttention(2, causal=True))(TOKENS).shape == (2, 7, 11)


def test_no_place_sees_what_comes_later():
    reader = model(
        AtrousAttention(2, causal=True), PatternAttention(causal(), causal=True)
    )
    before, changed = reader(TOKENS), TOKENS.clone()
    changed[:, 4] = changed[:, 4] % 10 + 1
    differs = (reader(changed) != before).any(-1)
    assert differs[:, 4:].all()
    assert not differs[:, :4].any()


def test_the_order_counts():
    reader = model(PatternAttention(causal(), causal=True))
    assert not torch.allclose(
        reader(TOKENS)[:, -1], reader(TOKENS[:, [1, 0, 2, 3, 4, 5, 6]])[:, -1]
    )


def test_what_the_last_layer_leaves_is_normalised():
    reader = model(LocalAttention(1, causal=True))
    with torch.no_grad():
        reader.norm.weight.zero_()
    assert torch.equal(reader(TOKENS), reader.output.bias.expand(2, 7, 11))


@pytest.mark.parametrize("attention", [None, LocalAttention(2)])
def test_an_attention_that_looks_ahead_is_an_error(attention):
    with pytest.raises(ValueError, match=r"of layer 1 may look ahead: .* causal=True"):
        LanguageModel(11, [layer(LocalAttention(2, causal=True)), layer(attention)])


def test_no_layer_is_an_error():
    with pytest.raises(ValueError, match="layer"):
        LanguageModel(11, [])


def test_the_loss_is_that_of_the_next_token():
    reader = model(LocalAttention(2, causal=True))
    loss = next_token_loss(reader, TOKENS)
    plain = cross_entropy(
        reader(TOKENS)[:, :-1].flatten(0, 1), TOKENS[:, 1:].flatten(), reduction="sum"
    )
    assert loss.count == 12
    torch.testing.assert_close(loss.total, plain)


def test_padding_costs_nothing():
    reader = model(LocalAttention(2, causal=True))
    padded = torch.cat([TOKENS, torch.zeros(2, 3, dtype=torch.int64)], 1)
    loss, plain = next_token_loss(reader, padded), next_token_loss(reader, TOKENS)
    assert loss.count == plain.count
    torch.testing.assert_close(loss.total, plain.total)
