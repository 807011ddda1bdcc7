"""Weights of a trained model as a script for a page.

Each row of a matrix is rounded to 45 equidistant values, −22 to 22 times the scale of the
row, and written as one character a weight. With 45 values the exact match is the same as in
floating point, and gzip needs little more than four bits for each.
"""

import json
import math
from typing import Any

import torch
from torch import Tensor

# All printable characters except the space and those with a meaning in a script or a page.
ALPHABET = "".join(chr(code) for code in range(33, 127) if chr(code) not in "\"'\\`<")
LARGEST = 22  # the largest multiple of a scale
OCTAVE = 8  # scales are powers of 2^(1/8)
SMALLEST = -80  # the exponent of the smallest scale


def encode(weights: Tensor, largest: int = LARGEST) -> dict[str, Any]:
    """A parameter as characters: the scale of each row, and each weight in its scale.

    Args:
        largest: the largest multiple of a scale, which the script's content says too.

    Raises:
        ValueError: a row needs a scale that has no character.
    """
    rows = weights.detach().double().reshape(-1, weights.shape[-1])
    scales, characters = "", ""
    for row in rows:
        scale = max(row.abs().max().item() / largest, scale_of(ALPHABET[0]))
        exponent = math.ceil(math.log2(scale) * OCTAVE - 1e-9)
        if exponent - SMALLEST >= len(ALPHABET):
            raise ValueError(
                f"no scale is large enough for a weight of {row.abs().max()}"
            )
        scales += ALPHABET[exponent - SMALLEST]
        multiples = (row / scale_of(scales[-1])).round().long().tolist()
        characters += "".join(ALPHABET[largest + multiple] for multiple in multiples)
    return {"shape": list(weights.shape), "scales": scales, "weights": characters}


def decode(parameter: dict[str, Any], largest: int = LARGEST) -> Tensor:
    """The parameter that :func:`encode` has written."""
    multiples = [
        ALPHABET.index(character) - largest for character in parameter["weights"]
    ]
    scales = [scale_of(character) for character in parameter["scales"]]
    rows = torch.tensor(multiples, dtype=torch.double).view(len(scales), -1)
    rows = rows * torch.tensor(scales, dtype=torch.double)[:, None]
    return rows.float().view(parameter["shape"])


def scale_of(character: str) -> float:
    """The scale that a character stands for."""
    return float(2.0 ** ((ALPHABET.index(character) + SMALLEST) / OCTAVE))


def script(comment: str, name: str, content: dict[str, Any]) -> str:
    """A script that declares a constant: how weights are written, and the content."""
    coding = {
        "alphabet": ALPHABET,
        "largest": LARGEST,
        "octave": OCTAVE,
        "smallest": SMALLEST,
    }
    written = json.dumps(coding | content, indent=0)
    return f"// {comment}\nconst {name} = {written};\n"


def read(text: str) -> dict[str, Any]:
    """The content of such a script."""
    return json.loads(text[text.index(" = ") + 3 :].rstrip(";\n"))
