"""What is said of an answer: exceptions, results of other kinds, wrong values, gradients."""

import sys

import pytest
import torch
from torch import nn

from attention_course.exercises.exercise import Exercise, diagnose, normal

SOFTMAX = Exercise(
    inputs={"x": normal(3, 5, seed=0)},
    solution=lambda x: x.softmax(-1),
    mistakes={
        "The softmax runs over the batch.": lambda x: x.softmax(0),
        "The logarithm is taken.": lambda x: x.log_softmax(-1),
    },
    hints={"size of tensor": "Both need one size."},
)
RIGHT = SOFTMAX.solution(*SOFTMAX.inputs.values())


def with_nan(x, count):
    """The right values, except for the first ``count``."""
    x = x.clone()
    x.view(-1)[:count] = torch.nan
    return x


def in_place(x):
    return x.copy_(x.softmax(-1))


def in_place_result(x):
    weights = x.softmax(-1)
    weights[0] = 0 + weights[0]
    return weights


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: 1 / 0, "stops with ZeroDivisionError: division by zero"),
        (lambda x: sys.exit("enough"), "stops with SystemExit: enough"),
        (lambda: 1, "TypeError"),
        (lambda x: x[9], "It was called, in this order, with x (3, 5)."),
        (lambda x: x + x.mT, "with x (3, 5).\nBoth need one size."),
        (in_place, "changes its input x in place: work on a copy of it."),
        (lambda x: None, "returns nothing (None)"),
        (lambda x: x.softmax(-1).tolist(), "returns a list, not a tensor"),
        (lambda x: x.softmax(-1).to(torch.complex128), "tensor of torch.complex128"),
        (lambda x: x.softmax(-1).to_sparse(), "layout torch.sparse_coo"),
        (lambda x: x.softmax(-1).to("meta"), "on device meta, not a dense one"),
        (lambda x: x.exp() / x.exp().sum(0), "The softmax runs over the batch."),
        (lambda x: x.sum(), "The shape is (), but should be (3, 5)."),
        (lambda x: x.softmax(-1)[None], "an extra axis of size 1: squeeze it"),
        (lambda x: x.softmax(-1).mT, "after .permute(1, 0) the values are right"),
        (lambda x: x.mT, "after .permute(1, 0) some values are still wrong"),
        (lambda x: 2 * x.softmax(-1), "constant factor: every value is 2 times"),
        (lambda x: x.softmax(-1) * (1 + 1e-5), "15 of 15 values are wrong"),
        (lambda x: x.softmax(-1) + 1 * (x == x[1, 2]), "1 of 15 values are wrong. The"),
        (lambda x: with_nan(x.softmax(-1), 15), "15 of 15 values are NaN or infinite"),
        (lambda x: with_nan(x.softmax(-1), 3), "first at (0, 0). The others are right"),
        (lambda x: with_nan(x, 3), "The others are not all right."),
        (
            lambda x: x.softmax(-1).float(),
            "dtype is torch.float32 where the inputs are",
        ),
        (lambda x: x.softmax(-1).detach(), "no gradient reaches x"),
        (in_place_result, "no gradient can be computed"),
        (
            lambda x: x.softmax(-1) + 0 * (x - x).sqrt(),
            "gradient with respect to x is not finite",
        ),
    ],
)
def test_what_is_wrong_is_said(function, words):
    assert words in diagnose(SOFTMAX, function)


def test_a_mistake_is_recognised_though_nan_is_where_it_has_zeros():
    masked = SOFTMAX._replace(mistakes={"Half is zero.": lambda x: x * (x > 0)})
    found = diagnose(masked, lambda x: (x * (x > 0)).masked_fill(x <= 0, torch.nan))
    count = int((SOFTMAX.inputs["x"] <= 0).sum())
    assert found == f"Half is zero. There are also {count} NaN."


def test_a_confusion_that_runs_only_where_sizes_are_equal_is_recognised():
    product = Exercise(
        inputs={"a": normal(2, 3, seed=0), "b": normal(3, 5, seed=1)},
        solution=torch.matmul,
        mistakes={},
        alike={"a": normal(3, 3, seed=2), "b": normal(3, 3, seed=3)},
        confusions={"The factors are swapped.": lambda a, b: b @ a},
    )
    assert diagnose(product, lambda a, b: b @ a) == "The factors are swapped."
    assert "stops with RuntimeError" in diagnose(product, lambda a, b: b @ a + 1)


def test_a_module_is_right_and_checking_leaves_the_inputs_as_they_were():
    before = SOFTMAX.inputs["x"].clone()
    diagnose(SOFTMAX, in_place)
    assert diagnose(SOFTMAX, nn.Softmax(-1)) == ""
    assert torch.equal(SOFTMAX.inputs["x"], before)
