"""Where does one pay in euros and speak French? Questions on real facts, in another language than the text.

The facts are CLDR's, the data on countries that come with Babel: which currencies a territory has, and which
languages are spoken there. A document tells of four territories in English, under the markers @1 to @4, which
are dealt anew for each document: nothing is to be known, all is to be read. The question is French, so that
it shares hardly a word with the document.

The facts are those of the installed Babel's CLDR: version 47 in Babel 2.18. Another one knows other facts.
"""

import random
import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from itertools import product
from typing import NamedTuple

from babel import Locale
from babel.core import get_global
from babel.numbers import get_territory_currencies

#: The signs that stand for places in a document; one of them is the answer.
PLACES = ("@1", "@2", "@3", "@4")
BLANK = "____"  #: what stands in a question for the word left out
_DAY = date(
    2026, 1, 1
)  # or the facts would change on the day when a country changes its money
_ENGLISH, _FRENCH = Locale("en"), Locale("fr")
_TOLD = (
    (
        "in {place} you pay with {name}",
        "prices in {place} are in {name}",
        "{place} uses {name}",
    ),
    (
        "in {place} people speak {name}",
        "{name} is spoken in {place}",
        "you hear {name} in {place}",
    ),
)
_ASKED = (
    ("on y paie en {name}", "les prix y sont en {name}", "la monnaie y est : {name}"),
    ("on y parle {name}", "on y entend parler {name}", "la langue y est : {name}"),
)


class Fact(NamedTuple):
    """A currency of a territory and a language that is spoken there, in CLDR's codes: BE, EUR and fr."""

    territory: str
    currency: str
    language: str


class Question(NamedTuple):
    """A document, a question on it with a word left out, and the place that fills the gap.

    ``territories`` says which territory is behind each of the ``candidates``. No reader is told.
    """

    document: tuple[str, ...]
    question: tuple[str, ...]
    answer: str
    candidates: tuple[str, ...]
    territories: tuple[str, ...]


def facts() -> list[Fact]:
    """Every currency of a territory with every language that at least a tenth of its people speak.

    Left out is what has no name in English or in French.
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
    known: Sequence[Fact], share: float, seed: int
) -> tuple[list[Fact], list[Fact]]:
    """Facts to train on, and facts of other territories to test with: of a ``share`` of all territories.

    Both are only such facts as :func:`questions` can ask about among those to train on, and what a held-out
    territory has, one of those to train on has as well. So no currency, no language and no pair of the two
    is met in a test for the first time: a pair that was never told would give the answer away.

    Raises:
        ValueError: the share is not between 0 and 1, or nothing can be asked on one of the sides.
    """
    if not 0 < share < 1:
        raise ValueError(
            f"the share to hold out must lie between 0 and 1, but is {share}"
        )
    usable = list(_squares(known, known))
    territories = sorted({fact.territory for fact in usable})
    chosen = random.Random(seed).sample(territories, round(share * len(territories)))
    rest = [fact for fact in usable if fact.territory not in chosen]
    train = list(_squares(rest, rest))
    told = {(fact.currency, fact.language) for fact in train}
    held_out = [fact for fact in usable if fact.territory in chosen]
    test = [
        fact
        for fact in _squares(held_out, train)
        if (fact.currency, fact.language) in told
    ]
    if not train or not test:
        raise ValueError(
            f"with {len(chosen)} of {len(territories)} territories held out there are {len(train)} facts to "
            f"train on and {len(test)} to test with: both need one"
        )
    return train, test


def questions(
    about: Sequence[Fact], others: Sequence[Fact], count: int, seed: int
) -> list[Question]:
    """Documents on one of the facts ``about`` and three of the ``others``, with a question on the first.

    The four stand in a square: two currencies and two languages, each with each. So who understands half of
    the question is left with two places, and who does not read it with four. They are not equally likely:
    each fact is asked about alike, and so a pair that many territories have is the answer more often. What
    counts is what the document tells: a territory may have more languages than that. Each place is named
    twice.

    Raises:
        ValueError: the count is below 1, or there is no such square.
    """
    if count < 1:
        raise ValueError(f"at least one question must be asked for, not {count}")
    squares = _squares(about, others)
    if not squares:
        raise ValueError(
            f"about none of {len(about)} facts can be asked among {len(others)} others"
        )
    generator = random.Random(seed)
    drawn = [
        (fact, generator.choice(squares[fact]))
        for fact in generator.choices(list(squares), k=count)
    ]
    return [
        _question(_fill(fact, square, generator), generator) for fact, square in drawn
    ]


_Square = tuple[
    list[Fact], ...
]  # what may stand in each of the three corners beside a fact


def _squares(
    about: Sequence[Fact], others: Sequence[Fact]
) -> dict[Fact, list[_Square]]:
    """For each fact that has any, its squares; each can be filled with four different territories."""
    alike = defaultdict[tuple[str, str], list[Fact]](list)
    for fact in others:
        alike[fact.currency, fact.language].append(fact)
    found = defaultdict[Fact, list[_Square]](list)
    for fact, (currency, language) in product(about, sorted(alike)):
        if currency != fact.currency and language != fact.language:
            pairs = (
                (fact.currency, language),
                (currency, fact.language),
                (currency, language),
            )
            square = tuple(alike.get(pair, []) for pair in pairs)
            if any(_different((fact, *corners)) for corners in product(*square)):
                found[fact].append(square)
    return dict(found)


# A territory may have several facts, but one marker in a document.
def _different(corners: Sequence[Fact]) -> bool:
    return len({fact.territory for fact in corners}) == len(corners)


def _fill(fact: Fact, square: _Square, generator: random.Random) -> tuple[Fact, ...]:
    while True:
        corners = (fact, *map(generator.choice, square))
        if _different(corners):
            return corners


def _question(corners: Sequence[Fact], generator: random.Random) -> Question:
    told = dict(zip(generator.sample(PLACES, len(PLACES)), corners, strict=True))
    sentences = [_tell(corner, place, generator) for place, corner in told.items()]
    document = tuple(
        word
        for sentence in generator.sample(sentences, len(sentences))
        for word in sentence
    )
    asked = _both(corners[0], _FRENCH, _ASKED, "et", generator)
    territories = tuple(told[place].territory for place in PLACES)
    return Question(
        document, (BLANK, ":", *asked), next(iter(told)), PLACES, territories
    )


def _tell(fact: Fact, place: str, generator: random.Random) -> tuple[str, ...]:
    clauses = _both(fact, _ENGLISH, _TOLD, "and", generator)
    return tuple(word.format(place=place) for word in (*clauses, "."))


def _both(
    fact: Fact,
    locale: Locale,
    forms: Sequence[Sequence[str]],
    joint: str,
    generator: random.Random,
) -> tuple[str, ...]:
    """The currency and the language in words, in any order; a place is still to be filled in."""
    names = _names(locale, fact.currency, fact.language)
    clauses = [
        generator.choice(ways).format(name=" ".join(name), place="{place}")
        for ways, name in zip(forms, names, strict=True)
    ]
    first, second = generator.sample(clauses, 2)
    return (*first.split(), joint, *second.split())


def _names(locale: Locale, currency: str, language: str) -> list[list[str]]:
    """The words of both names in a language, in small letters; nothing if it has no name for one of them."""
    names = [locale.currencies.get(currency), locale.languages.get(language)]
    return (
        [re.findall(r"\w+", name.lower()) for name in names if name]
        if all(names)
        else []
    )
