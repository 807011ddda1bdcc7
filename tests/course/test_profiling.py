import pytest
import torch

from attention_course.profiling import milliseconds, peak_memory

NUMBERS = 1000
BYTES = 4 * NUMBERS


def sequentially():
    for _ in range(5):
        torch.empty(NUMBERS)


@pytest.mark.parametrize(
    ("run", "count"),
    [
        (lambda: None, 0),
        (lambda: torch.empty(NUMBERS), 1),
        (sequentially, 1),
        (lambda: [torch.empty(NUMBERS) for _ in range(5)], 5),
        (lambda: torch.empty(NUMBERS).unfold(0, 100, 1), 1),  # a view
    ],
)
def test_only_blocks_held_at_the_same_time_add_up(run, count):
    assert peak_memory(run) == count * BYTES


def test_inputs_are_passed_on():
    assert peak_memory(torch.neg, torch.ones(NUMBERS)) == BYTES


def test_blocks_from_before_do_not_count():
    held = [torch.empty(NUMBERS)]

    def exchange():
        held.clear()
        held.append(torch.empty(NUMBERS))

    assert peak_memory(exchange) == BYTES
    assert peak_memory(exchange) == BYTES


def test_the_backward_pass_is_included():
    x = torch.ones(NUMBERS, requires_grad=True)
    assert 2 * BYTES <= peak_memory(lambda: x.exp().exp().sum().backward()) <= 5 * BYTES


def test_an_error_of_the_computation_is_raised():
    with pytest.raises(RuntimeError, match="invalid"):
        peak_memory(lambda: torch.empty(2).view(3))


def test_the_shortest_time_of_several_in_milliseconds(monkeypatch):
    ticks = iter([0, 0.05, 1, 1.01, 2, 2.05])
    monkeypatch.setattr("attention_course.profiling.perf_counter", lambda: next(ticks))
    assert milliseconds(lambda: None) == pytest.approx(10)
    assert list(ticks) == []


def test_time_passes_inputs_on_each_round():
    seen = []
    milliseconds(lambda *inputs: seen.append(inputs), 1, 2, rounds=2)
    assert seen == [(1, 2), (1, 2)]
