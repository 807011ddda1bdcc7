import copy
import io

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from companion.layers import (
    ConcatenatedPositionalEncoding,
    LearnedPositionalEncoding,
    NoPositionalEncoding,
    SinusoidalPositionalEncoding,
    sinusoids,
)
from tests.reference import vaswani_2017
from tests.tiny import close

SIZE, LONGEST = 6, 40
KINDS = {
    "added": SinusoidalPositionalEncoding,
    "concatenated": lambda: ConcatenatedPositionalEncoding(5),
    "learned": lambda: LearnedPositionalEncoding(LONGEST, SIZE),
    "none": NoPositionalEncoding,
}


@pytest.fixture(params=KINDS)
def position(request):
    torch.manual_seed(0)
    return KINDS[request.param]()


def words(length, batch=2, **kind):
    return torch.randn(batch, length, SIZE, **kind)


# The paper's numbers
@given(
    positions=st.lists(st.integers(0, 10**6), min_size=1, max_size=5),
    size=st.integers(1, 9),
)
def test_sinusoids_are_the_papers(positions, size):
    found = sinusoids(torch.tensor([positions], dtype=torch.float64), size)
    expected = [[vaswani_2017.sinusoids(position, size) for position in positions]]
    torch.testing.assert_close(
        found, torch.tensor(expected, dtype=torch.float64), atol=1e-7, rtol=0
    )


def test_a_position_may_be_a_fraction_and_without_a_batch():
    close(
        sinusoids(torch.tensor(2.5, dtype=torch.float64), 5),
        vaswani_2017.sinusoids(2.5, 5),
    )


@pytest.mark.parametrize("size", [1, 2, 5, SIZE])
def test_sinusoids_are_added_and_concatenated(size):
    embedded = torch.randn(2, 50, size, dtype=torch.float64)
    expected = torch.tensor(
        [vaswani_2017.sinusoids(t, size) for t in range(50)], dtype=torch.float64
    )
    close(SinusoidalPositionalEncoding()(embedded), embedded + expected)
    found = ConcatenatedPositionalEncoding(size)(embedded)
    assert torch.equal(found[..., :size], embedded)
    close(found[..., size:], expected.expand(2, -1, -1))


def test_a_shift_by_k_is_a_rotation_that_does_not_depend_on_the_position():
    size, k = 8, 17
    sine, cosine = (
        sinusoids(torch.tensor(float(k), dtype=torch.float64), size)
        .view(-1, 2)
        .unbind(-1)
    )
    rotation = torch.stack(
        [torch.stack([cosine, sine], -1), torch.stack([-sine, cosine], -1)], -2
    )
    here = torch.arange(1000, dtype=torch.float64)
    turned = rotation @ sinusoids(here, size).view(1000, -1, 2, 1)
    close(turned.flatten(1), sinusoids(here + k, size))


def test_a_learned_position_is_a_row_of_the_table():
    position, embedded = LearnedPositionalEncoding(LONGEST, SIZE), words(7)
    expected = torch.stack(
        [
            word + row
            for word, row in zip(embedded[0], position.embedding.weight, strict=False)
        ]
    )
    torch.testing.assert_close(position(embedded)[0], expected)


def test_a_table_can_be_initialised_again():
    torch.manual_seed(0)
    position = LearnedPositionalEncoding(100, 50)
    torch.manual_seed(1)
    position.reset_parameters()
    torch.manual_seed(1)
    assert torch.equal(position.embedding.weight, 0.1 * torch.randn(100, 50))


def test_a_table_starts_small():
    torch.manual_seed(0)
    assert LearnedPositionalEncoding(
        100, 50
    ).embedding.weight.std().item() == pytest.approx(0.1, rel=0.05)


def test_only_rows_that_were_used_learn():
    position = LearnedPositionalEncoding(9, SIZE)
    position(words(3), torch.tensor([1, 5])).square().sum().backward()
    learned = (position.embedding.weight.grad != 0).all(-1)
    assert learned.nonzero().flatten().tolist() == [1, 2, 3, 5, 6, 7]


# The first position
@given(first=st.integers(0, 30), length=st.integers(1, 9))
@pytest.mark.parametrize("kind", KINDS)
def test_first_is_a_piece_of_a_longer_sentence(kind, first, length):
    position, embedded = KINDS[kind](), words(LONGEST)
    piece = embedded[:, first : first + length]
    expected = position(embedded)[:, first : first + length]
    torch.testing.assert_close(position(piece, first), expected)
    torch.testing.assert_close(position(piece, torch.full((2,), first)), expected)


def test_each_row_may_have_its_own_first(position):
    embedded = words(LONGEST, batch=3)
    whole, first = position(embedded), torch.tensor([0, 31, 7])
    pieces = torch.stack(
        [row[start : start + 9] for row, start in zip(embedded, first, strict=True)]
    )
    expected = torch.stack(
        [row[start : start + 9] for row, start in zip(whole, first, strict=True)]
    )
    torch.testing.assert_close(position(pieces, first), expected)


# Types and devices


@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_device_and_type_are_the_words(position, dtype, device):
    position.to(device, dtype)
    first = torch.tensor([0, 3], device=device)
    found = position(words(5, dtype=dtype, device=device), first)
    assert found.device.type == device
    assert found.dtype == dtype


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_neighbours_far_out_are_told_apart_in_half_precision(dtype):
    found = SinusoidalPositionalEncoding()(
        torch.zeros(1, 3, SIZE, dtype=dtype), 3001
    )  # bfloat16 counts there in steps of 16
    expected = [vaswani_2017.sinusoids(t, SIZE) for t in (3001, 3002, 3003)]
    torch.testing.assert_close(
        found[0].double(), torch.tensor(expected).double(), atol=8e-3, rtol=0
    )


@pytest.mark.compiled
@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
)
@pytest.mark.usefixtures("unchecked")
def test_compiled_into_one_graph(position, device):
    torch.compiler.reset()
    position, embedded = position.to(device), words(7).to(device)
    backend = "inductor" if device == "cuda" else "aot_eager"
    compiled = torch.compile(position, fullgraph=True, backend=backend)
    for first in (2, torch.tensor([4, 0], device=device)):
        torch.testing.assert_close(compiled(embedded, first), position(embedded, first))


# Refusals


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("first", "error", "message"),
    [
        (
            -1,
            ValueError,
            "positions -1 to 3 were requested, but (positions start|the table)",
        ),
        (torch.tensor([3, -2]), ValueError, "positions -2 to 7 were requested"),
        (2.5, TypeError, r"first must be an integer, not 2\.5"),
        (None, TypeError, "first must be an integer, not None"),
        (torch.tensor([0.0, 1.0]), TypeError, "first must hold integers, not torch.fl"),
        (torch.tensor([1, 2, 3]), ValueError, r"first of shape \(3,\) does not fit 2"),
        (torch.tensor(1), ValueError, r"first of shape \(\) does not fit 2 rows"),
    ],
)
def test_a_bad_first_position_is_an_error(position, first, error, message):
    with pytest.raises(error, match=message):
        position(words(5), first)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("shape", [(SIZE,), (5, SIZE), (2, 3, 5, SIZE)])
def test_vectors_without_one_axis_of_positions_are_an_error(position, shape):
    with pytest.raises(ValueError, match=r"\(batch, length, features\), not \("):
        position(torch.randn(shape))


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (36, "positions 36 to 40 were requested, but the table has 40, 0 to 39"),
        (-1, "positions -1 to 3 were"),
        (torch.tensor([0, 36]), "positions 0 to 40 were"),
        (torch.tensor([3, -2]), "positions -2 to 7 were"),
    ],
)
def test_a_position_outside_the_table_is_an_error_with_the_numbers(first, message):
    with pytest.raises(ValueError, match=message):
        LearnedPositionalEncoding(LONGEST, SIZE)(words(5), first)
    assert LearnedPositionalEncoding(LONGEST, SIZE)(words(5), 35).shape == (2, 5, SIZE)


def test_on_another_device_more_vectors_than_positions_are_still_an_error():
    position, first = (
        LearnedPositionalEncoding(7, SIZE).to("meta"),
        torch.zeros(2, dtype=torch.long, device="meta"),
    )
    assert position(words(7, device="meta"), first).shape == (2, 7, SIZE)
    with pytest.raises(
        ValueError, match="positions 0 to 7 were requested, but the table has 7"
    ):
        position(words(8, device="meta"), first)


@pytest.mark.parametrize("size", [1, SIZE - 1])
def test_a_table_of_another_size_is_an_error(size):
    with pytest.raises(
        ValueError, match=f"embedded has {SIZE} features, but the table has {size}"
    ):
        LearnedPositionalEncoding(LONGEST, size)(words(5))


@pytest.mark.parametrize(
    "build",
    [
        lambda: ConcatenatedPositionalEncoding(0),
        lambda: LearnedPositionalEncoding(3, 0),
        lambda: LearnedPositionalEncoding(0, 3),
        lambda: sinusoids(torch.arange(3), 0),
    ],
)
def test_a_size_below_one_is_an_error(build):
    with pytest.raises(ValueError, match="must be at least 1, not 0"):
        build()


def test_sinusoids_are_computed_once_and_anew_for_other_lengths_sizes_and_types():
    """Calls with an integer read a table, and calls with a tensor compute."""
    position = SinusoidalPositionalEncoding()
    for length, first, size, dtype in [
        (3, 0, 8, torch.float32),
        (1, 5, 8, torch.float32),
        (40, 2, 8, torch.float32),
        (2, 1, 7, torch.float32),
        (2, 1, 7, torch.float64),
        (2, 1, 7, torch.bfloat16),
        (0, 3, 7, torch.bfloat16),
    ]:
        embedded = torch.randn(2, length, size, dtype=dtype)
        expected = position(embedded, torch.full((2,), first))
        assert torch.equal(position(embedded, first), expected)
        assert position(embedded[:0], first).shape == (0, length, size)
    known = position._known
    position(torch.randn(2, 2, 7, dtype=torch.bfloat16), 1)
    assert position._known is known


def test_a_transform_leaves_no_table_and_reads_none():
    position, embedded = SinusoidalPositionalEncoding(), words(3)
    gradient = torch.func.grad(lambda x: position(x).square().sum())
    torch.testing.assert_close(gradient(embedded), 2 * position(embedded))
    position = SinusoidalPositionalEncoding()
    gradient(embedded)
    torch.func.vmap(lambda x: position(x[None])[0])(embedded)
    assert position._known is None


def test_a_copy_or_a_file_holds_no_table():
    def size():
        torch.save(position, file := io.BytesIO())
        return len(file.getvalue())

    position, embedded = SinusoidalPositionalEncoding(), words(3)
    before = size()
    expected = position(embedded)
    assert size() == before
    other = copy.deepcopy(position)
    assert other._known is None
    assert torch.equal(other(embedded), expected)


def test_without_positions_nothing_changes():
    embedded = torch.randn(2, 5, 8)
    for first in (0, 3, torch.tensor([1, 4])):
        assert NoPositionalEncoding()(embedded, first) is embedded
