"""How several processes are started on the CPU, and what test_processes.py makes them train."""

import random
import sys
from pathlib import Path

import torch
from accelerate.utils import gather_object, set_seed

from attention_course.data.batching import Batches, in_order
from attention_course.training import (
    Trainer,
    loss_and_perplexity,
    sequence_loss,
    warmup_cosine,
)
from attention_course.training.checkpoint import write
from companion.attention import Additive
from companion.losses import Loss
from companion.models import BahdanauDecoder, BahdanauEncoder, EncoderDecoder

LAUNCH = "-m accelerate.commands.launch --multi_gpu --num_processes 2 --num_machines 1 --mixed_precision no"
LAUNCH += " --dynamo_backend no --main_process_port 0"
ON_THE_CPU = {
    "ACCELERATE_USE_CPU": "true",
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",
}

# Batches have an odd number of pairs, and the last has one, none for the second process.
PAIRS = [
    ([4 + row % 5] * (1 + row % 3), [4 + row % 5] * (1 + row % 4)) for row in range(50)
]
BATCH_SIZE, EVERY, STEPS = 7, 10, 200


def make_trainer(dropout=0.0, loss=sequence_loss):
    torch.manual_seed(0)
    model = EncoderDecoder(
        BahdanauEncoder(9, 5, 6, dropout, pad=0),
        BahdanauDecoder(9, 5, 8, 12, Additive(8, 12, 5), dropout),
    )
    optimizer = torch.optim.Adam(model.double().parameters(), lr=0.01)
    trainer = Trainer(model, optimizer, loss, warmup_cosine(optimizer, 5, 1000))
    set_seed(1, device_specific=True)
    return trainer


def evaluate(model):
    """Figures of a validation set, and a random number, to see that generators are restored."""
    validation = [batch for _, batch in in_order(PAIRS, 8)]
    return loss_and_perplexity(model, validation) | {
        "random": random.random() + float(torch.rand(()))
    }


def train(folder, steps, dropout):
    """Train, from the folder's checkpoint if it has one, and leave history and weights there."""
    trainer, checkpoint = make_trainer(dropout), folder / "checkpoint.pt"
    if checkpoint.exists():
        trainer.load(checkpoint)
    history = trainer.fit(
        Batches(PAIRS, BATCH_SIZE, seed=0), steps, evaluate, EVERY, checkpoint
    )
    if trainer.accelerator.is_main_process:
        write(
            folder / "trained.pt",
            {"history": history, "weights": trainer.model.state_dict()},
        )


def not_finite(folder):
    """The last process alone meets a loss that is not finite; leave what each of them says."""

    def loss(model, batch):
        found = sequence_loss(model, batch)
        last = (
            trainer.accelerator.process_index == trainer.accelerator.num_processes - 1
        )
        return Loss(
            found.total * float("nan" if last and trainer.step == 2 else 1), found.count
        )

    trainer = make_trainer(loss=loss)
    try:
        trainer.fit(Batches(PAIRS, BATCH_SIZE, seed=0), 5)
        message = "no error"
    except FloatingPointError as error:
        finite = all(
            bool(parameter.isfinite().all()) for parameter in trainer.model.parameters()
        )
        message = f"{error}; finite: {finite}"
    messages = gather_object([message])
    if trainer.accelerator.is_main_process:
        write(folder / "messages.pt", {"messages": messages})


def main_process_fails():
    """The main process fails where the others wait for it at the next step."""

    def log(record):
        raise RuntimeError("the log is full")

    make_trainer().fit(Batches(PAIRS, BATCH_SIZE, seed=0), 20, every=10, log=log)


if __name__ == "__main__":
    folder, *parts = sys.argv[1:]
    for part in parts:
        match part:
            case "equal":
                train(Path(folder, part), 30, dropout=0)
            case "dropout":
                train(Path(folder, part), STEPS, dropout=0.3)
            case "not_finite":
                not_finite(Path(folder))
            case "fail":
                main_process_fails()
