"""German to English on Multi30k, in the setting of the best-known tutorials, to the result as one JSON file.

For instance::

    python -m companion.experiments.multi30k bahdanau

The folder ``runs/bahdanau`` gets ``arguments.json``, checkpoints, curves for TensorBoard, and in the end
``vocabularies.json``, ``weights.safetensors``, the test split's ``translations.txt``, and ``result.json``.
The same command again goes on from the last checkpoint, to the very same numbers.
"""

import argparse
import json
import shlex
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from accelerate.utils import set_seed
from sacrebleu.metrics import BLEU
from torch import nn

from companion.checkpoint import replacing
from companion.data import multi30k
from companion.data.batching import Batches, in_order
from companion.data.vocabulary import SPECIAL
from companion.decoding import Hypotheses, beam_search, greedy
from companion.experiments.arguments import natural, penalty, positive, rate, share
from companion.experiments.corpus import SOURCE, TARGET, TEST, TRAINING, VALIDATION, Corpus, load_corpus
from companion.experiments.log import TensorBoard
from companion.experiments.record import VERSION, require_same_arguments, surroundings, write_json
from companion.experiments.translators import add_models
from companion.seq2seq import EncoderDecoder
from companion.state import map_state
from companion.training import Record, Trainer, held_out, sequence_loss, warmup_cosine
from companion.translation import Search, translate

COMMAND = ("python", "-m", "companion.experiments.multi30k")
MAX_LENGTH = 60
WARMUP = 50
WITHOUT_TRAINING = ("beam", "length_penalty")  # another search needs no other folder


def make_trainer(model: nn.Module, arguments: argparse.Namespace) -> Trainer:
    """Adam, its rate rising for the first steps and falling to 0 at the last."""
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.rate, betas=(0.9, 0.98))
    schedule = warmup_cosine(optimizer, min(WARMUP, arguments.steps), arguments.steps)
    return Trainer(model, optimizer, sequence_loss, schedule)


def train(trainer: Trainer, corpus: Corpus, arguments: argparse.Namespace) -> list[Record]:
    """Train from the last checkpoint, if there is one, and return the history."""
    checkpoint = arguments.output / "checkpoint.pt"
    if checkpoint.exists():
        trainer.load(checkpoint)
    batches = Batches(corpus.pairs[TRAINING], arguments.batch_size, arguments.seed)
    validation = [batch for _, batch in in_order(corpus.pairs[VALIDATION], arguments.batch_size)]
    with closing(TensorBoard(arguments.output)) as log:
        return trainer.fit(
            batches,
            arguments.steps,
            lambda model: held_out(model, validation),
            arguments.every,
            checkpoint,
            log,
        )


def test(
    model: EncoderDecoder, corpus: Corpus, arguments: argparse.Namespace
) -> tuple[dict[str, Any], list[str]]:
    """The figures of the test split, and its translations by beam search."""
    batches = [batch for _, batch in in_order(corpus.pairs[TEST], arguments.batch_size)]
    greedily = translate_test(model, corpus, greedy)
    beam = translate_test(model, corpus, best_of_beam(arguments.beam, arguments.length_penalty))
    bleu = {"greedy": score(greedily, corpus.references), "beam": score(beam, corpus.references)}
    return held_out(model, batches) | bleu, beam


def translate_test(model: EncoderDecoder, corpus: Corpus, search: Search) -> list[str]:
    """The model's translation of each test sentence, its tokens with spaces between."""
    found = translate(model, [source for source, _ in corpus.pairs[TEST]], search, MAX_LENGTH)
    return [" ".join(corpus.target.decode(tokens)) for tokens, _ in found]


def best_of_beam(width: int, length_penalty: float) -> Search:
    """Beam search that returns the best sentence alone."""

    def search(step: Any, state: Any, max_length: int) -> Hypotheses:
        found = beam_search(step, state, max_length, width, length_penalty)
        return map_state(lambda tensor: tensor[:, 0], found)

    return search


def score(translations: list[str], references: list[str]) -> dict[str, Any]:
    """BLEU over spaCy's tokens in lower case, as in the tutorials, and sacrebleu's signature of it."""
    metric = BLEU(lowercase=True, tokenize="none", force=True)
    bleu = metric.corpus_score(translations, [references]).score
    return {"bleu": bleu, "signature": str(metric.get_signature())}


def run(arguments: argparse.Namespace, command: str) -> dict[str, Any]:
    """The whole experiment, from the data to the files of results.

    Raises:
        ValueError: the arguments are none of a model or not the folder's; a checkpoint or data is damaged.
        OSError: the data is not there and cannot be fetched.
    """
    arguments.output = arguments.output or Path("runs", arguments.model)
    described = {name: value for name, value in vars(arguments).items() if name not in ("output", "build")}
    corpus = load_corpus(arguments.sentences)
    torch.manual_seed(arguments.seed)
    model = arguments.build(len(corpus.source), len(corpus.target), arguments)
    trainer = make_trainer(model, arguments)
    set_seed(arguments.seed)
    trained = {name: value for name, value in described.items() if name not in WITHOUT_TRAINING}
    require_same_arguments(arguments.output, trained)
    write_json(arguments.output / "arguments.json", trained)
    history = train(trainer, corpus, arguments)
    figures, translations = test(model, corpus, arguments)
    files = [f"{split}.{language}.gz" for split in corpus.pairs for language in (SOURCE, TARGET)]
    result = {
        "version": VERSION,
        "experiment": "multi30k",
        "model": arguments.model,
        "test": figures,
        "history": history,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "vocabularies": {SOURCE: len(corpus.source), TARGET: len(corpus.target)},
        "arguments": described,
        "command": command,
        "data": {name: multi30k.SHA256[name] for name in files},
    } | surroundings(processes=1)
    write_results(arguments.output, result, model, corpus, translations)
    return result


def write_results(
    folder: Path, result: dict[str, Any], model: nn.Module, corpus: Corpus, translations: list[str]
) -> None:
    """Each file whole or not at all, ``result.json`` the last, so that where it is the others are."""
    with replacing(folder / "weights.safetensors") as file:
        file.write(safetensors.torch.save(model.state_dict()))
    words = {SOURCE: corpus.source.tokens[len(SPECIAL) :], TARGET: corpus.target.tokens[len(SPECIAL) :]}
    write_json(folder / "vocabularies.json", words)  # Vocabulary(words) is the vocabulary again
    with replacing(folder / "translations.txt") as file:
        file.write("".join(f"{translation}\n" for translation in translations).encode())
    write_json(folder / "result.json", result)


def main() -> None:
    """Read the arguments, run, and print the figures of the test split, or in a line what is wrong."""
    command_line = parser()
    try:
        result = run(command_line.parse_args(), shlex.join([*COMMAND, *sys.argv[1:]]))
    except (ValueError, OSError) as error:
        command_line.error(str(error))
    print(json.dumps(result["test"], indent=2))


def parser() -> argparse.ArgumentParser:
    """The arguments of the command line: a model, and options; their defaults are those of the tutorials."""
    shared = argparse.ArgumentParser(add_help=False)
    add = shared.add_argument
    add("--output", type=Path, help="the folder for checkpoints and results; runs/MODEL if none is named")
    add("--steps", type=positive, default=2270, help="training steps in all; 227 of 128 pairs are an epoch")
    add("--batch-size", type=positive, default=128, help="sentences in a batch")
    add("--every", type=positive, default=227, help="steps between two looks at the validation split")
    add("--embedding", type=positive, default=256, help="features of a word")
    add("--hidden", type=positive, default=512, help="features of a recurrent state")
    add("--dropout", type=share, default=0.5, help="share of the embedded words' features set to zero")
    add("--rate", type=rate, default=1e-3, help="the highest learning rate")
    add("--seed", type=natural, default=0, help="of the parameters, the dropout and the order of the data")
    add(
        "--beam",
        type=positive,
        default=5,
        help="width of the beam search, which is tried beside greedy search",
    )
    add("--length-penalty", type=penalty, default=1.0, help="GNMT's, in the beam search")
    add("--sentences", type=positive, help="take only so many sentence pairs of each split, for a trial")
    parser = argparse.ArgumentParser(
        prog=shlex.join(COMMAND),
        description="Train a model on Multi30k, German to English; the same command again resumes.",
    )
    add_models(parser, shared)
    return parser


if __name__ == "__main__":
    main()
