"""One handwritten digit among clutter: pictures in regions, most of which show nothing of use.

A picture has 64 × 64 pixels in 8 × 8 regions. One region contains a digit of scikit-learn's,
and others contain clutter: the shuffled pixels of a digit, made lighter or darker at random
and shaded from one side to the other.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_course.data.scenes import Digits

#: Regions along each side of a picture, and pixels along each side of a region.
SIDE = 8
_REGIONS = _PIXELS = SIDE**2


class LargePictures(NamedTuple):
    """Regions with values from 0 (paper), the digits' names, and the digits' regions."""

    regions: Float[Tensor, "n k 64"]
    labels: Int[Tensor, " n"]
    cells: Int[Tensor, " n"]


def large_pictures(
    digits: Digits, count: int, seed: int, clutter: int = 20
) -> LargePictures:
    """Random pictures of one digit among clutter.

    Args:
        clutter: the number of regions with clutter, at most 63.
    """
    if not 0 <= clutter < _REGIONS:
        raise ValueError(f"clutter takes from 0 to 63 regions, not {clutter}")
    generator = torch.Generator().manual_seed(seed)
    images = torch.from_numpy(digits.images).flatten(1)  # (digits, 64)
    which = torch.randint(len(images), (count, 1 + clutter), generator=generator)
    content = images[which]  # (count, 1 + clutter, 64)
    order = torch.rand(content.shape, generator=generator).argsort(-1)
    ink = 0.5 + torch.rand(count, 1 + clutter, 1, generator=generator)
    angle = torch.rand(count, 1 + clutter, 1, 1, generator=generator) * 2 * math.pi
    x = torch.linspace(-2, 2, SIDE)
    shade = 1 + angle.cos() * x + angle.sin() * x[:, None]  # (count, …, 8, 8)
    shuffled = content.gather(-1, order) * shade.clamp_min(0).flatten(2)
    content[:, 1:] = (ink * shuffled)[:, 1:]
    cells = torch.rand(count, _REGIONS, generator=generator).argsort(-1)
    cells = cells[:, : 1 + clutter]  # of the digit, and of the clutter
    regions = torch.zeros(count, _REGIONS, _PIXELS)
    regions.scatter_(1, cells[..., None].expand(-1, -1, _PIXELS), content)
    return LargePictures(
        regions, torch.from_numpy(digits.labels)[which[:, 0]], cells[:, 0]
    )


def thumbnails(regions: Float[Tensor, "n k 64"]) -> Float[Tensor, "n k 2 2"]:
    """2 × 2 pixels for the 8 × 8 of each region, their means.

    Example:
        >>> thumbnails(torch.ones(1, 64, 64)).shape
        torch.Size([1, 64, 2, 2])
    """
    return regions.unflatten(-1, (2, 4, 2, 4)).mean((-3, -1))
