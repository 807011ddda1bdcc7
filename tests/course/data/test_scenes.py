import numpy as np
import pytest
import torch

from attention_course.data.scenes import (
    BELOW,
    NAMES,
    WORDS,
    Box,
    box_of_each_word,
    handwritten_digits,
    sample_scenes,
    split,
    weight_inside,
)


@pytest.fixture(scope="module")
def digits():
    return handwritten_digits()


@pytest.fixture(scope="module")
def scenes(digits):
    return sample_scenes(digits, 300, seed=0)


def names(caption):
    return [word for word in caption if word in NAMES]


def test_the_digits_are_scikit_learns(digits):
    assert digits.images.shape == (1797, 8, 8)
    assert digits.images.dtype == np.float32
    assert digits.images.min() == 0
    assert digits.images.max() == 1
    assert np.unique(digits.labels).tolist() == list(range(10))


def test_every_image_is_the_digits_that_its_caption_names(digits, scenes):
    known = {}
    for image, label in zip(digits.images, digits.labels.tolist(), strict=True):
        known.setdefault(image.tobytes(), set()).add(label)
    for image, caption, boxes in zip(*scenes, strict=True):
        rest = image[0].clone()
        for name, box in zip(names(caption), boxes, strict=True):
            inside = image[0, box.top : box.bottom, box.left : box.right].numpy()
            assert NAMES.index(name) in known[np.ascontiguousarray(inside).tobytes()]
            rest[box.top : box.bottom, box.left : box.right] = 0
        assert not rest.any()


def test_captions_follow_from_the_boxes(scenes):
    for caption, boxes in zip(scenes.captions, scenes.boxes, strict=True):
        expected = [names(caption)[0]]
        for name, last, box in zip(names(caption)[1:], boxes, boxes[1:], strict=False):
            if box.top >= last.bottom:
                expected.append(BELOW)
            else:  # in one row, from left to right
                assert box.left >= last.right
                assert abs(box.top - last.top) <= 2
            expected.append(name)
        assert list(caption) == expected
        assert set(caption) <= set(WORDS)


def test_boxes_are_on_the_canvas_and_apart(scenes):
    for boxes in scenes.boxes:
        canvas = torch.zeros(32, 32)
        for top, left, bottom, right in boxes:
            assert min(top, left) >= 0
            assert (bottom - top, right - left) == (8, 8)
            canvas[top:bottom, left:right] += 1
        assert canvas.sum() == 64 * len(boxes)
        assert canvas.max() == 1


def test_every_number_of_digits_and_every_position_occurs(scenes):
    numbers = [len(boxes) for boxes in scenes.boxes]
    assert set(numbers) == {2, 3, 4}
    assert min(numbers.count(n) for n in (2, 3, 4)) > 70
    tops = {box.top for boxes in scenes.boxes for box in boxes}
    assert tops == {1, 2, 3, 11, 12, 13, 21, 22, 23}
    assert tops == {box.left for boxes in scenes.boxes for box in boxes}


def test_scenes_of_one_digit_and_of_nine(digits):
    single = sample_scenes(digits, 50, seed=0, smallest=1, largest=1)
    assert all(
        len(caption) == len(boxes) == 1
        for _, caption, boxes in zip(*single, strict=True)
    )
    full = sample_scenes(digits, 5, seed=0, smallest=9, largest=9)
    assert all(
        caption.count(BELOW) == 2 and len(caption) == 11 for caption in full.captions
    )


def test_scenes_depend_on_the_seed(digits):
    one, same, other = (sample_scenes(digits, 20, seed) for seed in (1, 1, 2))
    assert torch.equal(one.images, same.images)
    assert (one.captions, one.boxes) == (same.captions, same.boxes)
    assert one.captions != other.captions


def test_the_split_puts_every_image_in_one_set(digits):
    sets = split(digits, 0.2, seed=0)
    assert sum(len(found.labels) for found in sets) == 1797
    images = [{image.tobytes() for image in found.images} for found in sets]
    assert len(set.union(*images)) == sum(len(found) for found in images)
    for label in range(10):
        for found, expected in zip(sets, (0.8, 0.1, 0.1), strict=True):
            fraction = (found.labels == label).sum() / (digits.labels == label).sum()
            assert fraction == pytest.approx(expected, abs=0.01)
    again, other = split(digits, 0.2, seed=0), split(digits, 0.2, seed=1)
    for index, found in enumerate(sets):
        assert np.array_equal(found.images, again[index].images)
        assert not np.array_equal(found.images, other[index].images)


@pytest.mark.parametrize(
    ("fraction", "held_out"), [(0.001, 0), (0.005, 1), (0.999, 178)]
)
def test_a_fraction_that_leaves_one_set_empty_is_an_error(digits, fraction, held_out):
    with pytest.raises(
        ValueError,
        match=f"{fraction} of 178 images of 0 leaves {178 - held_out} to train with and "
        f"{held_out} for validation and test",
    ):
        split(digits, fraction, seed=0)


def test_scenes_that_cannot_be_made_are_errors(digits):
    for smallest, largest in [(0, 2), (3, 2), (2, 10)]:
        with pytest.raises(
            ValueError, match=f"from 1 to 9 digits, not {smallest} to {largest}"
        ):
            sample_scenes(digits, 3, 0, smallest, largest)


# Where the digits are


def test_each_name_has_its_box():
    boxes = [Box(1, 1, 9, 9), Box(11, 1, 19, 9)]
    assert box_of_each_word(["three", BELOW, "one"], boxes) == [
        boxes[0],
        None,
        boxes[1],
    ]
    with pytest.raises(ValueError, match="names 1 digits, but there are 2 boxes"):
        box_of_each_word(["three", BELOW], boxes)


def test_uniform_weights_put_the_fraction_of_the_area_into_a_box():
    weights = torch.full((2, 3, 64), 1 / 64)
    close = torch.full((2, 3), 64 / 1024)
    torch.testing.assert_close(weight_inside(weights, Box(1, 2, 9, 10)), close)
    torch.testing.assert_close(
        weight_inside(weights, Box(1, 2, 9, 10), margin=2), close * (11 * 12) / 64
    )


@pytest.mark.parametrize(("row", "column"), [(0, 0), (2, 1), (7, 7)])
def test_the_weight_inside_a_box_is_proportional_to_the_pixels(row, column):
    weights = torch.zeros(64)
    weights[8 * row + column] = 1
    box = Box(6, 3, 14, 11)
    pixels = torch.zeros(32, 32)
    pixels[4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = 1 / 16
    assert weight_inside(weights, box).item() == pytest.approx(
        pixels[6:14, 3:11].sum().item()
    )
    assert weight_inside(weights, Box(0, 0, 32, 32), margin=5).item() == 1


@pytest.mark.parametrize("count", [0, 63, 9, 7])
def test_weights_that_are_no_grid_are_errors(count):
    with pytest.raises(ValueError, match=f"{count} weights are no square grid over 32"):
        weight_inside(torch.zeros(count), Box(0, 0, 8, 8))
