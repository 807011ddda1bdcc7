"""Cloze questions in French on English documents about real facts.

In which territory is the euro the currency and French spoken? The facts are those of
CLDR, the data on countries that come with Babel: the currencies of a territory and the
languages spoken there. A document describes four territories in English under the
markers @1 to @4, which are shuffled for each document, so that prior knowledge is
useless and the answer must be read from the text. The question is French and has hardly
a word in common with the document.

The facts depend on the installed Babel: version 2.18 contains CLDR 47.
"""

import random
import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from itertools import product
from typing import NamedTuple

from companion._checks import needs_extra

with needs_extra("book"):
    from babel import Locale
    from babel.core import get_global
    from babel.numbers import get_territory_currencies

#: The markers of the territories in a document; one of them is the answer.
MARKERS = ("@1", "@2", "@3", "@4")
BLANK = "____"  #: the gap in a question
_DAY = date(2026, 1, 1)  # fixed, because countries change their currencies
_ENGLISH, _FRENCH = Locale("en"), Locale("fr")
_STATEMENTS = (
    (
        "in {marker} you pay with {name}",
        "prices in {marker} are in {name}",
        "{marker} uses {name}",
    ),
    (
        "in {marker} people speak {name}",
        "{name} is spoken in {marker}",
        "you hear {name} in {marker}",
    ),
)
_QUESTIONS = (
    ("on y paie en {name}", "les prix y sont en {name}", "la monnaie y est : {name}"),
    ("on y parle {name}", "on y entend parler {name}", "la langue y est : {name}"),
)


class Fact(NamedTuple):
    """A territory, its currency and a language spoken there, as codes: BE, EUR and fr."""

    territory: str
    currency: str
    language: str


class Question(NamedTuple):
    """A document, a question with a gap, and the marker that fills it.

    ``territories`` are those behind the ``candidates``; readers do not receive them.
    """

    document: tuple[str, ...]
    question: tuple[str, ...]
    answer: str
    candidates: tuple[str, ...]
    territories: tuple[str, ...]


def facts() -> list[Fact]:
    """Every currency of a territory with every language that 10 % of its people speak.

    Currencies and languages without a name in English or in French are left out.
    """
    spoken = get_global("territory_languages")
    return [
        Fact(territory, currency, language)
        for territory in sorted(_ENGLISH.territories)
        for currency in get_territory_currencies(territory, _DAY)
        for language, people in sorted(spoken.get(territory, {}).items())
        if people["population_percent"] >= 10
        and all(_names(locale, currency, language) for locale in (_ENGLISH, _FRENCH))
    ]


def split(
    known: Sequence[Fact], fraction: float, seed: int
) -> tuple[list[Fact], list[Fact]]:
    """Training facts, and test facts of other territories.

    Both contain only facts that :func:`questions` can ask about among the training facts.
    Every pair of a currency and a language in the test facts also occurs in the training
    facts: a pair that never occurred in training would give the answer away.

    Args:
        fraction: the part of the territories to test with.
    """
    usable = list(_squares(known, known))
    territories = sorted({fact.territory for fact in usable})
    chosen = random.Random(seed).sample(territories, round(fraction * len(territories)))
    rest = [fact for fact in usable if fact.territory not in chosen]
    train = list(_squares(rest, rest))
    seen = {(fact.currency, fact.language) for fact in train}
    of_chosen = [fact for fact in usable if fact.territory in chosen]
    test = [
        fact
        for fact in _squares(of_chosen, train)
        if (fact.currency, fact.language) in seen
    ]
    if not train or not test:
        raise ValueError(
            f"with {len(chosen)} of {len(territories)} territories in the test set there are {len(train)} "
            f"facts to train on and {len(test)} to test with: both need one"
        )
    return train, test


def questions(
    about: Sequence[Fact], others: Sequence[Fact], count: int, seed: int
) -> list[Question]:
    """Documents on one fact of ``about`` and three of ``others``, each with a question.

    The question asks for the territory of the first fact. The four facts form a square:
    two currencies and two languages in all combinations. A reader that understands half
    of the question is left with two candidates, one that ignores it with four. The
    territories are not equally likely: each fact is equally likely to be asked about, so
    that a combination that many territories have is the answer more often. A document
    may mention only some of a territory's languages; the answer follows from the document
    alone. Each marker occurs twice.

    Args:
        others: the facts for the other three corners of the square.
    """
    squares = _squares(about, others)
    if not squares:
        raise ValueError(
            f"no question can be asked about {len(about)} facts among {len(others)} others"
        )
    generator = random.Random(seed)
    sampled = [
        (fact, generator.choice(squares[fact]))
        for fact in generator.choices(list(squares), k=count)
    ]
    return [
        _question(_fill(fact, square, generator), generator) for fact, square in sampled
    ]


# The candidates for each of the three other corners of a square.
_Square = tuple[list[Fact], ...]


def _squares(
    about: Sequence[Fact], others: Sequence[Fact]
) -> dict[Fact, list[_Square]]:
    """The squares of each fact that has any; four different territories can fill each."""
    by_pair = defaultdict[tuple[str, str], list[Fact]](list)
    for fact in others:
        by_pair[fact.currency, fact.language].append(fact)
    found = defaultdict[Fact, list[_Square]](list)
    for fact, (currency, language) in product(about, sorted(by_pair)):
        if currency != fact.currency and language != fact.language:
            pairs = (
                (fact.currency, language),
                (currency, fact.language),
                (currency, language),
            )
            square = tuple(by_pair.get(pair, []) for pair in pairs)
            if any(_different((fact, *corners)) for corners in product(*square)):
                found[fact].append(square)
    return dict(found)


def _different(corners: Sequence[Fact]) -> bool:
    """Whether the territories differ: one with several facts has one marker only."""
    return len({fact.territory for fact in corners}) == len(corners)


def _fill(fact: Fact, square: _Square, generator: random.Random) -> tuple[Fact, ...]:
    while True:
        corners = (fact, *map(generator.choice, square))
        if _different(corners):
            return corners


def _question(corners: Sequence[Fact], generator: random.Random) -> Question:
    described = dict(zip(generator.sample(MARKERS, len(MARKERS)), corners, strict=True))
    sentences = [
        _describe(corner, marker, generator) for marker, corner in described.items()
    ]
    document = tuple(
        word
        for sentence in generator.sample(sentences, len(sentences))
        for word in sentence
    )
    question = _clauses(corners[0], _FRENCH, _QUESTIONS, "et", generator)
    answer = next(iter(described))
    territories = tuple(described[marker].territory for marker in MARKERS)
    return Question(document, (BLANK, ":", *question), answer, MARKERS, territories)


def _describe(fact: Fact, marker: str, generator: random.Random) -> tuple[str, ...]:
    clauses = _clauses(fact, _ENGLISH, _STATEMENTS, "and", generator)
    return tuple(word.format(marker=marker) for word in (*clauses, "."))


def _clauses(
    fact: Fact,
    locale: Locale,
    forms: Sequence[Sequence[str]],
    conjunction: str,
    generator: random.Random,
) -> tuple[str, ...]:
    """The currency and the language in words, in random order, with ``{marker}`` to fill."""
    names = _names(locale, fact.currency, fact.language)
    clauses = [
        generator.choice(ways).format(name=" ".join(name), marker="{marker}")
        for ways, name in zip(forms, names, strict=True)
    ]
    first, second = generator.sample(clauses, 2)
    return (*first.split(), conjunction, *second.split())


def _names(locale: Locale, currency: str, language: str) -> list[list[str]]:
    """The words of both names in lower case; empty if one of them has no name."""
    names = [locale.currencies.get(currency), locale.languages.get(language)]
    return [_words(name) for name in names if name] if all(names) else []


def _words(name: str) -> list[str]:
    return re.findall(r"\w+", name.lower())
