import pytest
import torch

from companion.profiling import longest_chain, milliseconds, peak_memory

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


def test_the_shortest_time_of_several_in_milliseconds(monkeypatch):
    ticks = iter([0, 0.05, 1, 1.01, 2, 2.05])
    monkeypatch.setattr("companion.profiling.perf_counter", lambda: next(ticks))
    assert milliseconds(lambda: None) == pytest.approx(10)
    assert list(ticks) == []


def test_time_takes_inputs_and_refuses_no_rounds():
    seen = []
    milliseconds(lambda *inputs: seen.append(inputs), 1, 2, rounds=2)
    assert seen == [(1, 2), (1, 2)]
    with pytest.raises(ValueError, match="rounds must be at least 1, not 0"):
        milliseconds(print, rounds=0)


def test_a_chain_is_as_long_as_its_longest_way():
    x = torch.ones(3, requires_grad=True)
    assert longest_chain(x.exp()) == 2  # the input and the exponential
    assert longest_chain(x.exp() + x.exp().exp().exp()) == 5
    assert longest_chain(sum(x.exp() for _ in range(4))) == 2 + 4


def test_a_chain_longer_than_the_recursion_limit_is_counted():
    x = torch.ones(1, requires_grad=True)
    result = x
    for _ in range(5_000):
        result = result + 1
    assert longest_chain(result) == 5_001


def test_a_result_without_a_graph_is_refused():
    with pytest.raises(ValueError, match="no graph"):
        longest_chain(torch.ones(1))
