"""German to English on Multi30k, in the setting of the best-known tutorials, to the result as one JSON file.

For instance::

    python -m companion.experiments.multi30k --model bahdanau --output runs/bahdanau

The folder gets arguments, checkpoints, ``vocabularies.json``, ``weights.safetensors``, ``result.json``. The
same command again goes on from the last checkpoint, to the very same numbers.
"""

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
import torch
from sacrebleu.metrics import BLEU
from torch import nn

from companion import bahdanau, seq2seq
from companion.checkpoint import replacing
from companion.data import multi30k
from companion.data.batching import Batches, Encoded, in_order
from companion.data.vocabulary import SPECIAL, Vocabulary
from companion.decoding import beam_search
from companion.experiments.arguments import natural, penalty, positive, rate, share
from companion.experiments.record import require_same_arguments, surroundings, write_json
from companion.seq2seq import EncoderDecoder
from companion.training import Record, Trainer, evaluating, held_out, sequence_loss, warmup_cosine

SOURCE, TARGET = "de", "en"
TRAINING, VALIDATION, TEST = "train", "val", "test_2016_flickr"
COMMAND = ("python", "-m", "companion.experiments.multi30k")
MAX_LENGTH = 60
WARMUP = 50
WITHOUT_TRAINING = ("beam", "length_penalty")  # another search needs no other folder


class Corpus(NamedTuple):
    """The splits as token numbers, the two vocabularies, and the test split's translations as text."""

    pairs: dict[str, list[Encoded]]
    source: Vocabulary
    target: Vocabulary
    references: list[str]


def build_bahdanau(source_size: int, target_size: int, arguments: argparse.Namespace) -> EncoderDecoder:
    """Bahdanau's encoder and decoder, with as many units of attention as hidden ones."""
    embedding, hidden, dropout = arguments.embedding, arguments.hidden, arguments.dropout
    attention = bahdanau.Additive(hidden, 2 * hidden, hidden)
    return EncoderDecoder(
        bahdanau.Encoder(source_size, embedding, hidden, dropout),
        bahdanau.Decoder(target_size, embedding, hidden, 2 * hidden, attention, dropout),
    )


def build_gru(source_size: int, target_size: int, arguments: argparse.Namespace) -> EncoderDecoder:
    """Cho's encoder and decoder, without attention."""
    embedding, hidden, dropout = arguments.embedding, arguments.hidden, arguments.dropout
    return EncoderDecoder(
        seq2seq.ChoEncoder(source_size, embedding, hidden, dropout),
        seq2seq.ChoDecoder(target_size, embedding, hidden, hidden, dropout),
    )


MODELS = {"bahdanau": build_bahdanau, "gru": build_gru}


def load_corpus(limit: int | None) -> Corpus:
    """Multi30k as numbers: every word that occurs twice in the training split has one.

    Of each split only the first ``limit`` pairs, if a limit is given.
    """
    tokens = {}
    for split in (TRAINING, VALIDATION, TEST):
        sources, targets = zip(*multi30k.load_pairs(split, SOURCE, TARGET)[:limit], strict=True)
        tokens[split] = multi30k.tokenize(sources, SOURCE), multi30k.tokenize(targets, TARGET)
    source, target = (Vocabulary.of(sentences, minimum_frequency=2) for sentences in tokens[TRAINING])
    pairs: dict[str, list[Encoded]] = {
        split: [(source.encode(s), target.encode(t)) for s, t in zip(*sides, strict=True)]
        for split, sides in tokens.items()
    }
    return Corpus(pairs, source, target, [" ".join(sentence) for sentence in tokens[TEST][1]])


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
    return trainer.fit(
        batches, arguments.steps, lambda model: held_out(model, validation), arguments.every, checkpoint
    )


def test(model: EncoderDecoder, corpus: Corpus, arguments: argparse.Namespace) -> dict[str, Any]:
    """Loss, perplexity and BLEU on the test split, over spaCy's tokens in lower case as in the tutorials."""
    batches = [batch for _, batch in in_order(corpus.pairs[TEST], arguments.batch_size)]
    metric = BLEU(lowercase=True, tokenize="none", force=True)
    score = metric.corpus_score(translate(model, corpus, arguments), [corpus.references])
    return held_out(model, batches) | {"bleu": score.score, "sacrebleu": str(metric.get_signature())}


def translate(model: EncoderDecoder, corpus: Corpus, arguments: argparse.Namespace) -> list[str]:
    """The model's translation of each test sentence, its tokens with spaces between."""
    device = next(model.parameters()).device
    translations = [""] * len(corpus.references)
    with evaluating(model):
        for rows, batch in in_order(corpus.pairs[TEST], arguments.batch_size):
            state = model.start(batch.source.to(device))
            found = beam_search(model.step, state, MAX_LENGTH, arguments.beam, arguments.length_penalty)
            for row, sentence in zip(rows, found.tokens[:, 0].tolist(), strict=True):
                translations[row] = " ".join(corpus.target.decode(sentence))
    return translations


def run(arguments: argparse.Namespace, command: str) -> dict[str, Any]:
    """The whole experiment, from the data to the files of results.

    Raises:
        ValueError: the arguments are none of a model or not the folder's; a checkpoint or data is damaged.
        OSError: the data is not there and cannot be fetched.
    """
    arguments.output = arguments.output or Path("runs", arguments.model)
    described = {name: value for name, value in vars(arguments).items() if name != "output"}
    corpus = load_corpus(arguments.sentences)
    torch.manual_seed(arguments.seed)
    model = MODELS[arguments.model](len(corpus.source), len(corpus.target), arguments)
    trainer = make_trainer(model, arguments)
    trained = {name: value for name, value in described.items() if name not in WITHOUT_TRAINING}
    require_same_arguments(arguments.output, trained)
    history = train(trainer, corpus, arguments)
    files = [f"{split}.{language}.gz" for split in corpus.pairs for language in (SOURCE, TARGET)]
    result = {
        "model": arguments.model,
        "test": test(model, corpus, arguments),
        "history": history,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "vocabularies": {SOURCE: len(corpus.source), TARGET: len(corpus.target)},
        "arguments": described,
        "command": command,
        "data": {name: multi30k.SHA256[name] for name in files},
    } | surroundings()
    with replacing(arguments.output / "weights.safetensors") as file:
        file.write(safetensors.torch.save(model.state_dict()))
    words = {SOURCE: corpus.source.tokens[len(SPECIAL) :], TARGET: corpus.target.tokens[len(SPECIAL) :]}
    write_json(arguments.output / "vocabularies.json", words)  # Vocabulary(words) is the vocabulary again
    write_json(arguments.output / "result.json", result)
    return result


def main() -> None:
    """Read the arguments, run, and print the figures of the test split, or in a line what is wrong."""
    command_line = parser()
    try:
        result = run(command_line.parse_args(), shlex.join([*COMMAND, *sys.argv[1:]]))
    except (ValueError, OSError) as error:
        command_line.error(str(error))
    print(json.dumps(result["test"], indent=2))


def parser() -> argparse.ArgumentParser:
    """The arguments of the command line; the default sizes are those of the tutorials."""
    parser = argparse.ArgumentParser(
        prog=shlex.join(COMMAND),
        description="Train a model on Multi30k, German to English; the same command again resumes.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--model", choices=MODELS, required=True, help="the model to train")
    add("--output", type=Path, help="the folder for checkpoints and results; runs/MODEL if none is named")
    add("--steps", type=positive, default=2270, help="training steps in all; 227 of 128 pairs are an epoch")
    add("--batch-size", type=positive, default=128, help="sentences in a batch")
    add("--every", type=positive, default=227, help="steps between two looks at the validation split")
    add("--embedding", type=positive, default=256, help="features of a word")
    add("--hidden", type=positive, default=512, help="features of a recurrent state")
    add("--dropout", type=share, default=0.5, help="share of the embedded words' features set to zero")
    add("--rate", type=rate, default=1e-3, help="the highest learning rate")
    add("--seed", type=natural, default=0, help="of the parameters, the dropout and the order of the data")
    add("--beam", type=positive, default=1, help="width of the beam; 1 is greedy search")
    add("--length-penalty", type=penalty, default=0.0, help="GNMT's, for a beam wider than 1")
    add("--sentences", type=positive, help="take only so many sentence pairs of each split, for a trial")
    return parser


if __name__ == "__main__":
    main()
