"""The cross-entropy of tokens, with padding and without."""

import pytest
import torch

from companion.losses import token_loss


@pytest.mark.parametrize("pad", [None, 0, 3])
def test_what_is_left_out_does_not_count(pad):
    left_out = -100 if pad is None else pad
    loss = token_loss(
        torch.zeros(1, 4, 10), torch.tensor([[7, 4, left_out, left_out]]), pad
    )
    assert loss.count == 2
    torch.testing.assert_close(loss.total / loss.count, torch.tensor(10.0).log())


def test_without_padding_every_token_counts():
    assert token_loss(torch.zeros(2, 3, 10), torch.zeros(2, 3).long()).count == 6


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
def test_targets_that_are_no_integers_are_refused(dtype):
    with pytest.raises(TypeError, match="a target must hold integers"):
        token_loss(torch.zeros(1, 2, 5), torch.ones(1, 2, dtype=dtype))


def test_targets_of_32_bits_are_as_good():
    logits, target = torch.randn(2, 3, 5), torch.tensor([[1, 2, 3], [4, 0, 1]])
    found = token_loss(logits, target.int())
    assert torch.equal(found.total, token_loss(logits, target).total)
