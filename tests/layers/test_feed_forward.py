import pytest

from companion.layers import SwiGLU
from tests.reference import zhang_2019
from tests.tiny import close, doubles, spread


def test_a_gated_network_is_the_formula():
    module, x = spread(SwiGLU(4, 7)), doubles(5, 4)
    matrices = [
        linear.weight.tolist() for linear in (module.gate, module.up, module.down)
    ]
    expected = [zhang_2019.swiglu(*matrices, row) for row in x.tolist()]
    close(module(x), expected)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("sizes", [(0, 4), (4, -1)])
def test_a_size_below_one_is_an_error(sizes):
    with pytest.raises(ValueError, match=f"at least 1, not {min(sizes)}"):
        SwiGLU(*sizes)
