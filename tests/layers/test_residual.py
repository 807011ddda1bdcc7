import torch

from companion.layers import PreRMSNorm
from tests.reference import zhang_2019
from tests.tiny import close, doubles, spread


def test_rms_norms_come_before_the_sublayers_and_at_the_end():
    residual, x = spread(PreRMSNorm(6, dropout=0.0)), doubles(5, 6)
    gain = residual.norm.weight.tolist()
    expected = [zhang_2019.rms_norm(gain, row) for row in x.tolist()]
    close(residual.pre_norm(x), expected)
    assert torch.equal(residual.post_norm(x, x), 2 * x)
    final = residual.final_norm().double()
    close(final(x), [zhang_2019.rms_norm([1.0] * 6, row) for row in x.tolist()])
