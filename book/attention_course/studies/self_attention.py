"""A study of chapter 6: what the encoder of a Transformer attends to in real sentences.

The trained model is that of the experiment on Multi30k, German to English, with half of its
steps; the untrained one is the same before training. Both read every sentence of a split, and
each head's weight is averaged over three links between German words that belong together:

- ``article``: from an article to its noun, with one adjective in between;
- ``possessive``: from *ihr* or *sein* to the first noun before it, mostly its owner;
- ``particle``: from the last word of a sentence, a verb's second part, to the verb.

The first two have a control: ``two further`` is from any other word to the one two further
on, and ``first noun`` from any other word to the same noun. Nouns are recognised by their
capital letter, which no model sees.

Training takes about 25 minutes on one CPU core. The folder ``runs/self_attention`` has its
checkpoints, and the same command resumes from them.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attention_course.data.vocabulary import BOS, Vocabulary
from attention_course.experiments.sentences import packed
from attention_course.studies.recording import check_choice, grid
from companion._checks import needs_extra
from companion.attention.recording import record_weights
from companion.models.seq2seq import EncoderDecoder
from companion.models.transformer import Transformer

TITLE = "Chapter 6: links between German words in the encoder's self-attention"
MODELS = ("untrained", "trained")
#: What trains the model, for ``attention_course.experiments.multi30k``.
COMMAND = (
    "transformer --layers 3 --embedding 256 --hidden 512 --batch-size 64 --warmup 500"
    " --smoothing 0.1 --steps 2724 --every 227 --average 5 --dropout 0.2 --rate 0.001 --seed 0"
)
FOLDER = Path("runs", "self_attention")
#: The sentence whose weights are recorded: two women, and a possessive.
SENTENCE = (
    "eine frau trägt eine andere frau mit gleicher sportkleidung auf ihrem rücken ."
)

_ARTICLES = re.compile("eine?|eine[mnrs]|der|die|das|de[mns]")
_PARTICLES = re.compile(
    "ab|an|auf|aus|ein|entlang|fest|her(ab|auf|um|unter)|hin|hin(ab|auf|unter)|hoch|los|mit"
    "|nach|um|vor|vorbei|weg|zu|zurück|zusammen"
)
_POSSESSIVE = re.compile(r"(ihr|sein)(e[mnrs]?)?")
_Link = tuple[int, int]  # the position of a query, and that of a key


def links(words: Sequence[str]) -> dict[str, list[_Link]]:
    """The links of a sentence, whose words have the capital letters of German.

    Example:
        >>> links("Ein alter Mann hebt seinen Hut auf .".split())["article"]
        [(0, 2)]
    """
    n, lower = len(words), [word.lower() for word in words]
    nouns = [j for j in range(1, n) if words[j][0].isupper()]
    found: dict[str, list[_Link]] = {
        "article": [
            (j - 2, j)
            for j in nouns
            if j > 1
            and _ARTICLES.fullmatch(lower[j - 2])
            and _is_adjective(words[j - 1])
        ]
    }
    found["two further"] = [
        (i, i + 2) for i in range(n - 2) if (i, i + 2) not in found["article"]
    ]
    found["possessive"] = [
        (i, nouns[0])
        for i in range(n)
        if _POSSESSIVE.fullmatch(words[i]) and nouns and nouns[0] < i
    ]
    owned = [i for i, _ in found["possessive"]]
    found["first noun"] = [
        (i, nouns[0]) for i in range(n) if owned and i not in owned and i > nouns[0]
    ]
    found["particle"] = []
    if nouns and words[-1] == "." and _PARTICLES.fullmatch(lower[-2]):
        verb = nouns[0] + 1  # after the first noun, if nothing else is there
        if verb < n - 3 and re.fullmatch(r"[a-zäöüß]+(t|en)", words[verb]):
            found["particle"] = [(n - 2, verb)]
    return found


def _is_adjective(word: str) -> bool:
    return word[0].islower() and not _ARTICLES.fullmatch(word)


@torch.no_grad()
def encoder_weights(
    model: EncoderDecoder, vocabulary: Vocabulary, words: Sequence[str]
) -> Float[Tensor, "l h n n"]:
    """The weights of every layer and head of the encoder for one sentence."""
    source = torch.tensor([vocabulary.encode([word.lower() for word in words])])
    with record_weights(model.eval()) as maps:
        model.encoder(source)
    return torch.stack([weights[0][0] for weights in maps.values() if weights])


def mean_weights(
    model: EncoderDecoder, vocabulary: Vocabulary, sentences: Sequence[Sequence[str]]
) -> dict[str, dict[str, Any]]:
    """By the name of a link: how many there are, their mean ``weight`` by layer and head.

    ``uniform`` is the mean weight that equal weights would have.
    """
    found: dict[str, list[Tensor]] = {}
    uniform: dict[str, list[float]] = {}
    for words in sentences:
        weights = encoder_weights(model, vocabulary, words)
        for name, pairs in links(words).items():
            found.setdefault(name, []).extend(weights[:, :, i, j] for i, j in pairs)
            uniform.setdefault(name, []).extend([1 / len(words)] * len(pairs))
    return {
        name: {
            "count": len(each),
            "uniform": sum(uniform[name]) / len(each),
            "weight": torch.stack(each).mean(0).tolist(),
        }
        for name, each in found.items()
    }


@torch.no_grad()
def choice(
    model: Any,
    source: Sequence[int],
    prefix: Sequence[int],
    choices: Sequence[int],
    alone: int | None = None,
) -> int:
    """The most probable of some tokens after a prefix of the translation.

    Args:
        model: a Transformer.
        source, prefix: a sentence and the beginning of its translation, as token ids.
        choices: the tokens to choose from.
        alone: the source position that attends to itself alone, in every layer.
    """
    encoder, n = model.encoder, len(source)
    x = encoder.position(encoder.embedding(torch.tensor([source])))
    for layer in encoder.layers:
        x = layer(x, _visible(n, alone))
    state = model.decoder.start(encoder.norm(x), torch.ones(1, n, dtype=torch.bool))
    logits = model.decoder(torch.tensor([[BOS, *prefix]]), state)[0, -1]
    return choices[int(logits[list(choices)].argmax())]


def _visible(n: int, alone: int | None) -> Bool[Tensor, "1 n n"]:
    mask = torch.ones(1, n, n, dtype=torch.bool)
    if alone is not None:
        mask[0, alone] = torch.arange(n) == alone
    return mask


def her_or_their(
    german: Sequence[Sequence[str]], english: Sequence[Sequence[str]]
) -> Iterator[tuple[Sequence[str], int, Sequence[str], int]]:
    """Sentence pairs with one *ihr* and one *her* or *their*, and where they are."""
    for words, translation in zip(german, english, strict=True):
        ours = [i for i, _ in links(words)["possessive"]]
        theirs = [i for i, word in enumerate(translation) if word in ("her", "their")]
        if len(ours) == len(theirs) == 1 and words[ours[0]].startswith("ihr"):
            yield words, ours[0], translation, theirs[0]


def measure(model: str) -> dict[str, Any]:
    """Both splits with one model.

    Returns:
        for ``val`` and ``test`` the :func:`mean_weights`; ``possessives``, of all in both
        splits their number and how many are translated rightly, usually and if *ihr* attends
        to itself alone; and the ``weights`` of :data:`SENTENCE`, packed.

    Raises:
        ValueError: there is no such model.
    """
    check_choice("model", model, MODELS)
    corpus, texts = _corpus()
    network = _network(model)
    right = {"count": 0, "as usual": 0, "alone": 0}
    for split in ("val", "test"):
        for words, j, english, k in her_or_their(*texts[split]):
            source = corpus.source.encode([word.lower() for word in words])
            prefix = corpus.target.encode(english[: k + 1])
            tokens = corpus.target.encode(["her", "their"])
            right["count"] += 1
            for name, alone in (("as usual", None), ("alone", j)):
                chosen = choice(network, source, prefix[:-1], tokens, alone)
                right[name] += chosen == prefix[-1]
    return {
        **{
            split: mean_weights(network, corpus.source, german)
            for split, (german, _) in texts.items()
        },
        "possessives": right,
        "weights": packed(encoder_weights(network, corpus.source, SENTENCE.split())),
    }


@cache
def _corpus() -> tuple[Any, dict[str, tuple[list[list[str]], list[list[str]]]]]:
    """The corpus, and the words of the two splits: German with its capital letters."""
    from attention_course.data import multi30k
    from attention_course.experiments import corpus

    texts = {}
    for name, split in (("val", corpus.VALIDATION), ("test", corpus.TEST)):
        german, english = (multi30k.load(split, language) for language in ("de", "en"))
        texts[name] = (
            multi30k.tokenize(german, "de", lower=False),
            multi30k.tokenize(english, "en"),
        )
    return corpus.load_corpus(None), texts


def _network(model: str) -> Transformer:
    from attention_course.experiments.multi30k import parser, run

    with needs_extra("experiments"):
        from safetensors.torch import load_file

    arguments = parser().parse_args([*COMMAND.split(), "--output", str(FOLDER)])
    corpus, _ = _corpus()
    torch.manual_seed(arguments.seed)
    network: Transformer = arguments.build(
        len(corpus.source), len(corpus.target), arguments
    )
    if model == "trained":
        if not (FOLDER / "result.json").exists():
            run(arguments, COMMAND.split())
        network.load_state_dict(load_file(FOLDER / "weights.safetensors"))
    return network.eval()


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    return grid(model=MODELS)
