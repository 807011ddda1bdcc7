"""Which weights are tested: those of the best record, or the mean of the last ones."""

import math

import pytest
import torch
from torch import nn

from attention_course.experiments.snapshots import Snapshots, mean
from attention_course.training import Trainer
from companion.losses import Loss


class Batches:
    def __getitem__(self, step):
        return torch.tensor([1.0])


def trained(folder, losses, average):
    """A training of one number that grows by 1 a step, with a validation loss for each value."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)

    def loss(model, batch):
        return Loss(-model(batch[:, None]).sum(), torch.tensor(1))

    def evaluate(model):
        return {"held_out_loss": losses(model.weight.item())}

    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    trainer = Trainer(model, optimizer, loss, clip=math.inf)
    snapshots = Snapshots(trainer, folder, average)
    trainer.fit(Batches(), 6, evaluate, every=1, log=lambda record: snapshots.keep())
    return model, snapshots, evaluate


def test_the_best_record_is_selected(tmp_path):
    model, snapshots, evaluate = trained(tmp_path, lambda x: (x - 2) ** 2, 1)
    assert model.weight.item() == 6
    assert snapshots.select(evaluate) == {"steps": [2], "held_out_loss": 0}
    assert model.weight.item() == 2
    assert {path.stem for path in tmp_path.iterdir()} == {"2", "6"}


def test_the_mean_of_the_last_is_selected_only_if_it_is_better(tmp_path):
    model, snapshots, evaluate = trained(tmp_path, lambda x: abs(x - 5.4), 2)
    found = snapshots.select(evaluate)  # 5.5, where the best record has 5
    assert found == {"steps": [5, 6], "held_out_loss": pytest.approx(0.1)}
    assert model.weight.item() == 5.5
    model, snapshots, evaluate = trained(tmp_path, lambda x: abs(x - 3), 2)
    assert snapshots.select(evaluate) == {"steps": [3], "held_out_loss": 0}
    assert model.weight.item() == 3


def test_missing_and_damaged_weights_are_named(tmp_path):
    _, snapshots, evaluate = trained(tmp_path, lambda x: -x, 1)
    (tmp_path / "6.safetensors").write_bytes(b"1234")
    with pytest.raises(ValueError, match=r"6\.safetensors is damaged"):
        snapshots.select(evaluate)
    (tmp_path / "6.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"6\.safetensors"):
        snapshots.select(evaluate)


def test_the_mean_of_whole_numbers_is_the_last():
    weights = [
        {"w": torch.tensor([1.0, 2.0]), "n": torch.tensor(3)},
        {"w": torch.tensor([3.0, 2.0]), "n": torch.tensor(4)},
    ]
    found = mean(weights)
    assert found["w"].tolist() == [2, 2]
    assert found["n"] == 4
