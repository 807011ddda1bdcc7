"""Large pictures: one digit among clutter, every choice from the seed, and thumbnails."""

import numpy as np
import pytest
import torch

from attention_course.data.clutter import large_pictures, thumbnails
from attention_course.data.scenes import Digits, handwritten_digits


@pytest.fixture(scope="module")
def digits():
    return handwritten_digits()


@pytest.fixture(scope="module")
def pictures(digits):
    return large_pictures(digits, 200, seed=0)


def test_the_region_of_the_digit_is_an_image_of_it(digits, pictures):
    known = {}
    for image, label in zip(digits.images, digits.labels.tolist(), strict=True):
        known.setdefault(image.tobytes(), set()).add(label)
    assert pictures.regions.shape == (200, 64, 64)
    for regions, label, cell in zip(*pictures, strict=True):
        assert label.item() in known[regions[cell].numpy().tobytes()]


def test_twenty_other_regions_have_clutter_and_the_rest_is_empty(pictures):
    inked = pictures.regions.gt(0).any(-1)  # (pictures, regions)
    assert (inked.sum(1) == 21).all()
    assert inked[torch.arange(200), pictures.cells].all()


def test_clutter_is_no_digit(digits, pictures):
    known = {image.tobytes() for image in digits.images}
    for regions, cell in zip(pictures.regions[:20], pictures.cells, strict=False):
        for place, region in enumerate(regions):
            if place != cell and region.any():
                assert region.numpy().tobytes() not in known


def test_clutter_is_shaded_along_one_direction():
    """With digits of one grey, what is left is the shade, linear in row and column where positive."""
    grey = Digits(np.full((1, 8, 8), 0.5, dtype=np.float32), np.zeros(1, dtype=int))
    regions, _, cells = large_pictures(grey, 30, seed=0, clutter=1)
    for picture, cell in zip(regions, cells, strict=True):
        (other,) = (i for i in range(64) if i != cell and picture[i].any())
        shade = picture[other].unflatten(-1, (8, 8))
        row, column = torch.meshgrid(*2 * [torch.linspace(-2, 2, 8)], indexing="ij")
        positive = shade > 0
        plane = torch.stack([torch.ones(8, 8), row, column], -1)[positive]
        found = torch.linalg.lstsq(plane, shade[positive][:, None]).solution.squeeze(-1)
        torch.testing.assert_close(plane @ found, shade[positive], atol=1e-5, rtol=0)
        ink, slope = found[0], found[1:].norm()
        torch.testing.assert_close(ink, slope)  # ink · (1 + the direction · position)
        assert 0.5 * 0.5 <= ink <= 0.5 * 1.5


def test_digit_and_clutter_may_be_in_any_region(digits):
    found = large_pictures(digits, 2_000, seed=1)
    assert set(found.cells.tolist()) == set(range(64))
    assert set(found.labels.tolist()) == set(range(10))


def test_pictures_depend_on_their_arguments_alone(digits, pictures):
    again, other = (large_pictures(digits, 200, seed=seed) for seed in (0, 1))
    for first, second in zip(pictures, again, strict=True):
        assert torch.equal(first, second)
    assert not torch.equal(pictures.regions, other.regions)


def test_without_clutter_there_is_the_digit_alone(digits):
    found = large_pictures(digits, 5, seed=0, clutter=0)
    assert (found.regions.gt(0).any(-1).sum(1) == 1).all()
    full = large_pictures(digits, 5, seed=0, clutter=63)
    assert full.regions.gt(0).any(-1).all()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"clutter": 64}, "from 0 to 63 regions, not 64"),
        ({"clutter": -1}, "from 0 to 63 regions, not -1"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(digits, changed, message):
    arguments = {"count": 3, "seed": 0, "clutter": 20} | changed
    with pytest.raises(ValueError, match=message):
        large_pictures(digits, **arguments)


def test_a_thumbnail_has_the_means_of_a_quarter_of_a_region():
    region = torch.arange(64.0).expand(2, 3, 64)
    found = thumbnails(region)
    assert found.shape == (2, 3, 2, 2)
    rows = torch.arange(64.0).unflatten(0, (8, 8))
    assert found[1, 2, 0, 1] == rows[:4, 4:].mean()
    assert found[1, 2, 1, 0] == rows[4:, :4].mean()
