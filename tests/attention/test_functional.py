import pytest
import torch

from companion.attention import (
    cosine_scores,
    dot_product_attention,
    masked_softmax,
)

SHAPES = {
    "no batch": ((4, 3), (6, 3), (6, 5)),
    "a batch": ((2, 4, 3), (2, 6, 3), (2, 6, 5)),
    "heads": ((2, 3, 4, 3), (2, 3, 6, 3), (2, 3, 6, 5)),
    "five axes": ((2, 1, 3, 4, 3), (2, 1, 3, 6, 3), (2, 1, 3, 6, 5)),
    "one query for all": ((4, 3), (2, 6, 3), (2, 6, 5)),
    "one query for none": ((1, 4, 3), (0, 6, 3), (0, 6, 5)),
    "one source for all": ((2, 4, 3), (1, 6, 3), (1, 6, 5)),
}
each_shape = pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)


def tensors(shapes):
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=torch.float64) for shape in shapes]


def definition(query, key, value, mask=None, scale=None):
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    return masked_softmax(scale * query @ key.mT, mask) @ value


@pytest.mark.usefixtures("unchecked")
@each_shape
@pytest.mark.parametrize("scale", [None, 2.0])
@pytest.mark.parametrize("masked", [False, True])
def test_dot_product_attention_is_the_definition(shapes, scale, masked):
    query, key, value = tensors(shapes)
    mask = torch.rand(4, 6) < 0.6 if masked else None
    if masked:
        mask[1] = False
    found = dot_product_attention(query, key, value, mask, scale)
    expected = definition(query, key, value, mask, scale)
    torch.testing.assert_close(found, expected)
    if masked:
        assert not found[..., 1, :].any()


@each_shape
@pytest.mark.parametrize("queries", [1, 4, 6])
@pytest.mark.usefixtures("unchecked")
def test_causal_attention_is_the_definition_with_the_causal_mask(shapes, queries):
    (query_shape, *others) = shapes
    query, key, value = tensors([(*query_shape[:-2], queries, 3), *others])
    mask = torch.ones(queries, 6, dtype=torch.bool).tril(6 - queries)
    torch.testing.assert_close(
        dot_product_attention(query, key, value, causal=True),
        definition(query, key, value, mask),
    )


def test_causal_attention_of_a_sequence_to_itself_needs_no_mask(monkeypatch):
    """A mask of n × n would not fit into memory where a fused kernel does."""
    made = []
    monkeypatch.setattr(torch, "ones", lambda *args, **named: made.append(args))
    x = torch.randn(2, 3, 5, 4)
    dot_product_attention(x, x, x, causal=True)
    dot_product_attention(x[..., -1:, :], x, x, causal=True)
    assert not made


def test_causal_attention_with_a_mask_is_an_error():
    x = torch.randn(2, 5, 4)
    with pytest.raises(
        ValueError, match=r"no mask, but there is one of shape \(5, 5\)"
    ):
        dot_product_attention(x, x, x, torch.ones(5, 5) > 0, causal=True)


def test_causal_attention_with_more_queries_than_keys_is_an_error():
    query, key = torch.randn(2, 5, 4), torch.randn(2, 3, 4)
    with pytest.raises(ValueError, match=r"5 queries cannot be the last .* 3 keys"):
        dot_product_attention(query, key, key, causal=True)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("query", "key", "value", "message"),
    [
        ((2, 4, 3), (2, 6, 5), (2, 6, 5), "number of features, not 3 and 5"),
        ((2, 4, 3), (2, 6, 3), (2, 5, 5), "6 keys but 5 values"),
        (
            (2, 4, 3),
            (3, 6, 3),
            (3, 6, 5),
            r"3.*2",
        ),
        ((2, 4, 3), (2, 0, 3), (2, 0, 5), r"\(2, 0, 3\) has no key"),
        ((3,), (2, 6, 3), (2, 6, 5), r"the query needs a shape .*not \(3,\)"),
    ],
)
def test_inputs_that_do_not_fit_are_an_error(query, key, value, message, causal):
    inputs = (torch.randn(shape) for shape in (query, key, value))
    with pytest.raises((ValueError, RuntimeError), match=message):
        dot_product_attention(*inputs, causal=causal)


@pytest.mark.usefixtures("unchecked")
def test_a_mask_that_does_not_fit_is_an_error():
    x = torch.randn(2, 5, 4)
    with pytest.raises(ValueError, match=r"mask\[:, None\]"):
        dot_product_attention(x, x, x, torch.ones(2, 5) > 0)
    with pytest.raises(TypeError, match=r"torch\.float32"):
        dot_product_attention(x, x, x, torch.ones(2, 5, 5))


@pytest.mark.usefixtures("unchecked")
def test_cosine_scores_of_different_sizes_are_an_error():
    with pytest.raises(RuntimeError, match="4x3 and 5x6"):
        cosine_scores(torch.randn(4, 3), torch.randn(6, 5))
