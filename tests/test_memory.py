import pytest
import torch

from companion.memory import peak_memory

NUMBERS = 1000
BYTES = 4 * NUMBERS


def one_after_the_other():
    for _ in range(5):
        torch.empty(NUMBERS)


@pytest.mark.parametrize(
    ("run", "count"),
    [
        (lambda: None, 0),
        (lambda: torch.empty(NUMBERS), 1),
        (one_after_the_other, 1),
        (lambda: [torch.empty(NUMBERS) for _ in range(5)], 5),
        (lambda: torch.empty(NUMBERS).unfold(0, 100, 1), 1),  # a view
    ],
)
def test_what_is_held_at_once(run, count):
    assert peak_memory(run) == count * BYTES


def test_inputs_are_handed_on():
    assert peak_memory(torch.neg, torch.ones(NUMBERS)) == BYTES


def test_what_was_there_before_does_not_count():
    held = [torch.empty(NUMBERS)]

    def exchange():
        held.clear()
        held.append(torch.empty(NUMBERS))

    assert peak_memory(exchange) == BYTES
    assert peak_memory(exchange) == BYTES


def test_the_backward_pass_counts():
    x = torch.ones(NUMBERS, requires_grad=True)
    assert 2 * BYTES <= peak_memory(lambda: x.exp().exp().sum().backward()) <= 5 * BYTES


def test_an_error_is_not_swallowed():
    with pytest.raises(RuntimeError, match="invalid"):
        peak_memory(lambda: torch.empty(2).view(3))
