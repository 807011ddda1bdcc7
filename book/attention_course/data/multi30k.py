"""Multi30k: image descriptions in English, with German and French translations.

Source: Elliott, Frank, Sima'an and Specia, "Multi30K: Multilingual English-German Image
Descriptions" (2016), task 1.
"""

import gzip
from collections.abc import Iterable

from attention_course.data.download import fetch
from companion._checks import needs_extra

with needs_extra("experiments"):
    import spacy

#: Where the files are downloaded from.
ADDRESS = "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/"
#: The files' checksums.
SHA256 = {
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.fr.gz": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
    "test_2017_flickr.de.gz": "a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee",
    "test_2017_flickr.en.gz": "76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074",
    "test_2017_flickr.fr.gz": "3ba671ceb2299f3304ffafefea7a833d08632fbaf0ba18546f8a2ec2391af496",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.fr.gz": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.fr.gz": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
}


def load(split: str, language: str) -> list[str]:
    """The sentences of a split in one language.

    The file is taken from the subfolder ``multi30k`` of the folder that the environment
    variable COMPANION_DATA names, or downloaded once into the user's cache. Its checksum
    is verified in both cases.

    Args:
        split: ``train``, ``val``, ``test_2016_flickr`` or ``test_2017_flickr``.
        language: ``de``, ``en`` or ``fr``.

    Raises:
        FileNotFoundError: the file is not in the folder COMPANION_DATA.
        ValueError: there is no such split or language, or the file's checksum is not the
            original's.
        ConnectionError: the file could not be downloaded.
    """
    name = f"{split}.{language}.gz"
    if name not in SHA256:
        raise ValueError(f"Multi30k has no {name}; it has {', '.join(SHA256)}")
    path = fetch({name: SHA256[name]}, ADDRESS, "multi30k")
    text = gzip.decompress(path.read_bytes()).decode("utf-8")
    # only line feeds separate, because sentences contain other breaks
    return text.removesuffix("\n").split("\n")


def load_pairs(split: str, source: str, target: str) -> list[tuple[str, str]]:
    """The sentences of a split in two languages, as (source, target) pairs."""
    return list(zip(load(split, source), load(split, target), strict=True))


def tokenize(
    sentences: Iterable[str], language: str, lower: bool = True
) -> list[list[str]]:
    """The words and punctuation of each sentence, in lower case unless told otherwise.

    The tokens are those of spaCy's rules for the language, which need no trained model.
    """
    tokenizer = spacy.blank(language).tokenizer
    return [
        [token.text.lower() if lower else token.text for token in tokenizer(sentence)]
        for sentence in sentences
    ]
