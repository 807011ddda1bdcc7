import copy
import math
import random
import sys
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from attention_course.data.batching import Batches, in_order
from attention_course.training import (
    LabelSmoothing,
    Trainer,
    evaluating,
    loss_and_perplexity,
    sequence_loss,
    trainer,
    warmup_cosine,
    warmup_inverse_root,
)
from attention_course.training.checkpoint import read
from companion.attention import Dot, GumbelSoftmax, HardAttention, masks
from companion.attention.hard import HalfAndHalf
from companion.losses import Loss

PAIRS = [
    ([4 + row % 5] * (1 + row % 3), [4 + row % 5] * (1 + row % 4)) for row in range(50)
]


class Tiny(nn.Module):
    """The smallest sequence model: it reads the last target token and the first source token."""

    def __init__(self, size=6, vocabulary=9, dropout=0.3):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, size)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(size, vocabulary)

    def forward(self, source, target):
        return self.output(
            self.dropout(self.embedding(target) + self.embedding(source[:, :1]))
        )


def make_trainer(
    steps=20,
    size=6,
    optimizer=torch.optim.Adam,
    loss=sequence_loss,
    schedule=True,
    model=Tiny,
    clip=1.0,
    learning_rate=0.05,
):
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    model = model(size)
    optimizer = optimizer(model.parameters(), lr=learning_rate)
    schedule = warmup_cosine(optimizer, 5, steps) if schedule else None
    return Trainer(model, optimizer, loss, schedule, clip)


def evaluate(model):
    """Figures of a validation set, and a number from each random generator, to see all restored."""
    return loss_and_perplexity(model, [batch for _, batch in in_order(PAIRS, 8)]) | {
        "random": random.random() + np.random.rand() + float(torch.rand(()))  # noqa: NPY002
    }


def parameters(trainer):
    return {name: value.clone() for name, value in trainer.model.state_dict().items()}


def test_training_learns():
    trainer = make_trainer(steps=200)
    history = trainer.fit(Batches(PAIRS, 8, seed=0), 200, evaluate, every=50)
    assert [record["step"] for record in history] == [50, 100, 150, 200]
    assert history[-1]["loss"] < history[0]["loss"]
    assert history[-1]["perplexity"] < 2.5 < history[0]["perplexity"] * 2
    assert history[-1]["perplexity"] == pytest.approx(
        math.exp(history[-1]["held_out_loss"])
    )


def test_a_record_is_the_mean_since_the_last_one_and_the_end_is_recorded():
    losses = [3.0, 1.0, 5.0, 7.0, 2.0]

    def loss(model, batch):
        return Loss(next(model.parameters()).sum() * 0 + 3 * batch, torch.tensor(3))

    trainer = make_trainer(loss=loss)
    assert trainer.fit(losses, 5, every=2) == [
        {"step": 2, "loss": 2.0},
        {"step": 4, "loss": 6.0},
        {"step": 5, "loss": 2.0},
    ]


def test_a_record_is_the_mean_since_the_last_one_even_after_an_interruption(tmp_path):
    def loss(model, batch):
        if batch is None:
            raise KeyboardInterrupt
        return Loss(next(model.parameters()).sum() * 0 + 3 * batch, torch.tensor(3))

    trainer = make_trainer(loss=loss)
    with pytest.raises(KeyboardInterrupt):
        trainer.fit([1.0, 2.0, None], 4)
    trainer.save(tmp_path / "checkpoint.pt")
    resumed = make_trainer(loss=loss)
    resumed.load(tmp_path / "checkpoint.pt")
    for each in (trainer, resumed):
        assert each.fit([1.0, 2.0, 4.0, 5.0], 4) == [{"step": 4, "loss": 3.0}]


def test_the_history_returned_is_a_copy():
    trainer = make_trainer()
    trainer.fit(Batches(PAIRS, 8, seed=0), 1)[0]["step"] = 99
    assert [record["step"] for record in trainer.history] == [1]


@pytest.fixture
def bfloat16(monkeypatch):
    """Autocast as on a GPU, on whatever device there is."""
    AcceleratorState._reset_state(reset_partial_state=True)
    monkeypatch.setattr(trainer, "_precision", lambda device: "bf16")
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


def test_after_training_in_half_precision_the_model_is_plain_again(bfloat16):
    types = set()

    def loss(model, batch):
        types.add(model(batch.source, batch.target).dtype)
        return sequence_loss(model, batch)

    trainer, (_, batch) = make_trainer(loss=loss), next(in_order(PAIRS, 8))
    plain = Tiny().to(trainer.accelerator.device).eval()
    batch = type(batch)(*(tensor.to(trainer.accelerator.device) for tensor in batch))
    trainer.fit([batch], 1)
    assert types == {torch.bfloat16}
    plain.load_state_dict(trainer.model.state_dict())
    assert torch.equal(trainer.model.eval()(*batch), plain(*batch))


class Transfers(TorchDispatchMode):
    """Counts the single numbers that Python asks a tensor for: each synchronises a GPU."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function is torch.ops.aten._local_scalar_dense.default
        return function(*args, **(kwargs or {}))


def test_a_step_transfers_no_single_number():
    trainer = make_trainer(optimizer=torch.optim.SGD)
    with Transfers() as transfers:
        torch.ones(()).item()
        trainer.fit(Batches(PAIRS, 8, seed=0), 3)
    assert transfers.count == 1  # the one of this test


def test_steps_are_those_in_all():
    batches = Batches(PAIRS, 8, seed=0)
    once = make_trainer()
    once.fit(batches, 20, every=10)
    twice = make_trainer()
    twice.fit(batches, 10, every=10)
    assert twice.step == 10
    twice.fit(batches, 20, every=10)
    assert twice.history == once.history
    assert twice.fit(batches, 20, every=10) == once.history


def test_gradients_are_clipped():
    def loss(model, batch):
        return Loss(
            1e6 * sum(parameter.sum() for parameter in model.parameters()),
            torch.tensor(1),
        )

    trainer = make_trainer(loss=loss, optimizer=torch.optim.SGD, schedule=False)
    before = parameters(trainer)
    trainer.fit([0], 1)
    moved = sum(
        ((after - before[name]) ** 2).sum()
        for name, after in parameters(trainer).items()
    )
    assert float(moved) ** 0.5 == pytest.approx(
        0.05, rel=1e-4
    )  # the learning rate times the norm 1


def in_a_notebook(monkeypatch, person):
    """As in a kernel: a frontend says whether there is a person who can answer input()."""
    request = {"content": {"code": "…", "allow_stdin": person}}
    shell = SimpleNamespace(get_parent=lambda: request)
    module = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", module)


def test_a_notebook_that_a_program_executes_has_no_progress_bar(capsys, monkeypatch):
    for person in (False, True):
        in_a_notebook(monkeypatch, person)
        make_trainer().fit(Batches(PAIRS, 8, seed=0), 2)
        assert ("2/2" in capsys.readouterr().err) == person


def test_the_progress_bar_shows_the_figures(capsys):
    make_trainer().fit(Batches(PAIRS, 8, seed=0), 4, evaluate, every=2)
    shown = capsys.readouterr().err
    assert "4/4" in shown
    assert "perplexity=" in shown


@pytest.mark.parametrize("stop", [4, 8, 12])
def test_resume_is_exact(tmp_path, stop):
    batches, path = Batches(PAIRS, 8, seed=0), tmp_path / "checkpoint.pt"
    whole = make_trainer()
    whole.fit(batches, 20, evaluate, every=4)

    make_trainer().fit(batches, stop, evaluate, every=4, checkpoint=path)
    resumed = make_trainer()
    torch.manual_seed(99)
    random.seed(99)
    resumed.load(path)
    assert resumed.step == stop
    assert resumed.fit(batches, 20, evaluate, every=4) == whole.history
    for name, value in parameters(whole).items():
        assert torch.equal(value, resumed.model.state_dict()[name])


class Sampling(Tiny):
    """A decoder with sampled attention, whose generator is its own."""

    def __init__(self, size, kind):
        super().__init__(size)
        self.attention = kind(Dot(), generator=torch.Generator().manual_seed(5))

    def forward(self, source, target):
        words = self.embedding(source)
        return self.output(self.weights(self.embedding(target), words) @ words)

    def weights(self, query, source):
        if isinstance(self.attention, GumbelSoftmax):
            return self.attention.weights(query, source)
        return self.attention(query, source).weights


@pytest.mark.parametrize("kind", [HardAttention, HalfAndHalf, GumbelSoftmax])
def test_resume_is_exact_with_a_generator_of_an_attention(tmp_path, kind):
    batches, path = Batches(PAIRS, 8, seed=0), tmp_path / "checkpoint.pt"
    build = partial(make_trainer, model=partial(Sampling, kind=kind))
    whole = build().fit(batches, 8, every=4)
    build().fit(batches, 4, every=4, checkpoint=path)
    resumed = build()
    resumed.load(path)
    assert resumed.fit(batches, 8, every=4) == whole


class TestCheckpointsThatDoNotFit:
    @pytest.fixture
    def path(self, tmp_path):
        make_trainer().fit(
            Batches(PAIRS, 8, seed=0), 3, checkpoint=tmp_path / "checkpoint.pt"
        )
        return tmp_path / "checkpoint.pt"

    def refuse(self, trainer, path, message):
        before, state = parameters(trainer), torch.get_rng_state()
        settings = trainer.optimizer.state_dict()
        with pytest.raises(ValueError, match=message):
            trainer.load(path)
        assert all(
            torch.equal(before[name], value)
            for name, value in parameters(trainer).items()
        )
        assert torch.equal(state, torch.get_rng_state())
        assert trainer.optimizer.state_dict() == settings
        assert (trainer.step, trainer.history) == (0, [])

    def test_another_shape(self, path):
        message = r"checkpoint\.pt is of another model: its embedding.weight is \(9, 6\) .*, here \(9, 7\)"
        self.refuse(make_trainer(size=7), path, message)

    def test_another_parameter(self, path):
        trainer = make_trainer()
        trainer.model.more = nn.Linear(1, 1)
        self.refuse(trainer, path, r"its more\.weight is None, here \(1, 1\)")

    def test_a_parameter_less(self, path):
        trainer = make_trainer()
        del trainer.model.output
        self.refuse(trainer, path, r"its output\.weight is \(9, 6\).*, here None")

    def test_another_optimizer(self, path):
        self.refuse(
            make_trainer(optimizer=torch.optim.SGD),
            path,
            "another training: its optimizer is Adam, here SGD",
        )

    def test_no_schedule(self, path):
        self.refuse(
            make_trainer(schedule=False),
            path,
            "its schedule is LambdaLR, here NoneType",
        )

    def test_another_type_of_numbers(self, path):
        trainer = make_trainer()
        trainer.model.double()
        self.refuse(trainer, path, r"its embedding.weight is .*float32, here .*float64")

    def test_a_relative_of_the_optimizer(self, path):
        self.refuse(
            make_trainer(optimizer=torch.optim.AdamW),
            path,
            "its optimizer is Adam, here AdamW",
        )

    def test_other_settings_of_the_optimizer(self, path):
        other = partial(torch.optim.Adam, betas=(0.5, 0.9))
        message = r"its group 0 betas is \(0.9, 0.999\), here \(0.5, 0.9\)"
        self.refuse(make_trainer(optimizer=other), path, message)

    def test_parameters_in_another_order(self, path):
        def backwards(parameters, lr):
            return torch.optim.Adam(reversed(list(parameters)), lr)

        message = r"its group 0 parameter 0 is embedding\.weight, here output\.bias"
        self.refuse(make_trainer(optimizer=backwards), path, message)

    def test_a_schedule_of_other_steps(self, path):
        self.refuse(
            make_trainer(steps=1000),
            path,
            r"its schedule\.lr_lambdas is .*20.*, here .*1000",
        )

    @pytest.mark.parametrize("name", ["python", "numpy", "torch", "modules"])
    def test_random_generators_that_cannot_be_set(self, path, name):
        content = read(path)
        del content["random"][0][name]
        torch.save(content, path)
        self.refuse(make_trainer(), path, f"checkpoint.pt is damaged: KeyError.*{name}")

    def test_a_state_of_the_optimizer_in_another_shape(self, path):
        content = read(path)
        content["optimizer"]["param_groups"] = []
        torch.save(content, path)
        self.refuse(make_trainer(), path, "checkpoint.pt is damaged")

    def test_another_kind_of_module(self, path):
        class Relative(Tiny):
            pass

        self.refuse(
            make_trainer(model=Relative),
            path,
            "another training: its model is Tiny, here .*Relative",
        )

    def test_another_submodule(self, path):
        def build(size):
            model = Tiny(size)
            model.dropout = nn.AlphaDropout(0.3)
            return model

        message = "its model.dropout is Dropout, here AlphaDropout"
        self.refuse(make_trainer(model=build), path, message)

    def test_another_dropout(self, path):
        other = partial(Tiny, dropout=0.5)
        message = r"its model\.dropout\.p is 0\.3, here 0\.5"
        self.refuse(make_trainer(model=other), path, message)

    def test_another_attribute(self, path):
        def build(size):
            model = Tiny(size)
            model.rule = masks.local(radius=3)
            return model

        message = r"its model\.rule is None, here local\(radius=3\)"
        self.refuse(make_trainer(model=build), path, message)

    def test_another_loss(self, path):
        message = r"its loss is sequence_loss, here LabelSmoothing\(epsilon=0\.1\)"
        self.refuse(make_trainer(loss=LabelSmoothing(0.1)), path, message)

    def test_other_settings_of_the_loss(self, path):
        smoothed = make_trainer(loss=LabelSmoothing(0.1))
        smoothed.save(path)
        message = r"its loss is LabelSmoothing\(epsilon=0\.1\), here .*0\.2"
        self.refuse(make_trainer(loss=LabelSmoothing(0.2)), path, message)

    def test_another_clip(self, path):
        self.refuse(make_trainer(clip=2.0), path, "its clip is 1, here 2")
        self.refuse(make_trainer(clip=math.inf), path, "its clip is 1, here inf")

    def test_another_learning_rate(self, path):
        other = partial(torch.optim.Adam, eps=1e-6)
        self.refuse(make_trainer(optimizer=other), path, "its group 0 eps is 1e-08")
        message = r"its schedule\.base_lrs is \(0\.05\), here \(0\.1\)"
        self.refuse(make_trainer(learning_rate=0.1), path, message)

    def test_the_versions_are_named_and_not_compared(self, path):
        content = read(path)
        content["versions"] = "Python 3.12.1 and PyTorch 2.7.0"
        torch.save(content, path)
        message = r"here 2; it was written by Python 3\.12\.1 .*, this is Python 3\."
        self.refuse(make_trainer(clip=2.0), path, message)
        (resumed := make_trainer()).load(path)
        assert resumed.step == 3

    def test_further_settings(self, path):
        trainer = make_trainer()
        trainer.settings["argument batch_size"] = "32"
        message = "its argument batch_size is None, here 32"
        self.refuse(trainer, path, message)

    def test_cut_off(self, path):
        path.write_bytes(path.read_bytes()[:1000])
        self.refuse(
            make_trainer(), path, r"checkpoint\.pt is no checkpoint, or not whole"
        )

    def test_missing(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="nowhere"):
            make_trainer().load(tmp_path / "nowhere")


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_before_any_parameter_changes(bad):
    seen = []

    def loss(model, batch):
        seen.append(parameters(trainer))
        return Loss(
            sum(parameter.sum() for parameter in model.parameters()) * batch,
            torch.tensor(1),
        )

    trainer = make_trainer(loss=loss)
    with pytest.raises(
        FloatingPointError,
        match=r"the loss of step 2 is (nan|-?inf); .* all modules are finite",
    ):
        trainer.fit([1.0, 1.0, bad], 3)
    assert all(
        torch.equal(value, seen[2][name]) for name, value in parameters(trainer).items()
    )
    assert any(
        not torch.equal(value, seen[1][name])
        for name, value in parameters(trainer).items()
    )


def test_the_first_modules_whose_outputs_are_not_finite_are_named():
    trainer = make_trainer()
    batches = Batches(PAIRS, 8, seed=0)
    trainer.fit(batches, 2)
    with torch.no_grad():
        trainer.model.embedding.weight.fill_(1e38)
    trainer.model.dropout = nn.Sequential(nn.Dropout(0.3), nn.Softplus(), Squared())
    modes = {module: module.training for module in trainer.model.modules()}
    with pytest.raises(
        FloatingPointError,
        match=r"step 2 is nan; .* infinity is that of dropout\.2 \(Squared\); "
        r".* NaN is that of output \(Linear\)",
    ):
        trainer.fit(batches, 3)
    assert modes == {module: module.training for module in trainer.model.modules()}
    assert not any(module._forward_hooks for module in trainer.model.modules())


class Squared(nn.Module):
    def forward(self, x):
        return x * x


def test_a_parameter_that_is_not_finite_is_named():
    trainer = make_trainer()
    with torch.no_grad():
        trainer.model.output.bias[3] = math.nan
    with pytest.raises(
        FloatingPointError,
        match=r"step 0 is nan; .*parameter output\.bias is not finite",
    ):
        trainer.fit(Batches(PAIRS, 8, seed=0), 1)


def test_a_gradient_that_is_not_finite_stops_before_any_parameter_changes():
    def loss(model, batch):
        # the derivative of the root at 0 is infinite
        total = (model.output.weight * 0).sum().sqrt()
        return Loss(total, torch.tensor(1))

    trainer = make_trainer(loss=loss)
    before = parameters(trainer)
    with pytest.raises(
        FloatingPointError,
        match=r"the gradient's norm of step 0 is nan; .* gradient of output\.weight$",
    ):
        trainer.fit([None], 1)
    assert all(
        torch.equal(value, before[name]) for name, value in parameters(trainer).items()
    )


def test_the_gradient_is_clipped_to_the_norm_that_was_asked_for():
    model = Tiny()
    before = [parameter.clone() for parameter in model.parameters()]
    trainer = Trainer(
        model, torch.optim.SGD(model.parameters(), lr=1.0), sequence_loss, clip=0.01
    )
    trainer.fit(Batches(PAIRS, 8, seed=0), 1)
    moved = [
        now.cpu() - then for now, then in zip(model.parameters(), before, strict=True)
    ]
    assert sum(part.square().sum() for part in moved).sqrt().item() == pytest.approx(
        0.01, rel=1e-3
    )


def test_what_a_killed_training_left_is_removed_at_the_next_start(tmp_path):
    path = tmp_path / "checkpoint.pt"
    make_trainer().fit(Batches(PAIRS, 8, seed=0), 2, checkpoint=path)
    left = tmp_path / "checkpoint.pt.0a1b2c3d.partial"
    left.write_bytes(b"half")
    trainer = make_trainer()
    trainer.load(path)
    trainer.fit(Batches(PAIRS, 8, seed=0), 2, checkpoint=path)  # nothing left to do
    assert not left.exists()
    assert path.exists()


def test_sequence_loss_is_over_next_tokens_without_padding():
    model = Tiny().eval()
    (_, batch), *_ = in_order(PAIRS[:5], 5)
    logits = model(batch.source, batch.target)
    expected = [
        -logits[row, t].log_softmax(-1)[batch.target[row, t + 1]]
        for row in range(5)
        for t in range(batch.target.shape[1] - 1)
        if batch.target[row, t + 1] != 0
    ]
    loss = sequence_loss(model, batch)
    torch.testing.assert_close(loss.total, torch.stack(expected).sum())
    assert loss.count == len(expected)


@pytest.mark.parametrize("batch_size", [1, 7, 50])
def test_the_loss_of_a_set_does_not_depend_on_its_batches(batch_size):
    model = Tiny()
    figures = loss_and_perplexity(
        model, [batch for _, batch in in_order(PAIRS, batch_size)]
    )
    assert figures == pytest.approx(
        loss_and_perplexity(model, [batch for _, batch in in_order(PAIRS, 3)])
    )


def test_an_empty_set_is_refused():
    with pytest.raises(ValueError, match="no target token"):
        loss_and_perplexity(Tiny(), [])


def test_a_loss_too_large_for_its_exponential_has_infinite_perplexity():
    model = Tiny()
    torch.nn.init.constant_(model.output.weight, 0)
    with torch.no_grad():
        model.output.bias[:] = torch.tensor([1000.0] + [0] * 8)
    figures = loss_and_perplexity(model, [batch for _, batch in in_order(PAIRS, 8)])
    assert figures == {"held_out_loss": pytest.approx(1000), "perplexity": math.inf}


def test_a_loss_that_is_no_number_has_a_perplexity_that_is_none():
    model = Tiny()
    torch.nn.init.constant_(model.output.bias, math.nan)
    figures = loss_and_perplexity(model, [batch for _, batch in in_order(PAIRS, 8)])
    assert figures == pytest.approx(
        {"held_out_loss": math.nan, "perplexity": math.nan}, nan_ok=True
    )


def test_evaluating_restores_each_module_and_gradients():
    model = Tiny()
    model.embedding.eval()
    with evaluating(model):
        assert not any(module.training for module in model.modules())
        assert not torch.is_grad_enabled()
    assert model.training
    assert model.dropout.training
    assert not model.embedding.training
    assert torch.is_grad_enabled()


def test_the_rate_rises_and_falls():
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=2.0)
    schedule = warmup_cosine(optimizer, 4, 100)
    rates = []
    for _ in range(102):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates[0] == pytest.approx(2 / 4)
    assert rates[1] == pytest.approx(2 * 2 / 4 * (1 + math.cos(math.pi / 100)) / 2)
    assert rates[50] == pytest.approx(1.0)
    assert rates[:4] == sorted(rates[:4])
    assert rates[4:] == sorted(rates[4:], reverse=True)
    assert rates[100] == rates[101] == 0


def test_the_transformers_rate_is_the_papers_highest_after_the_warmup_and_resumes():
    def begin():
        optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=2.0)
        return optimizer, warmup_inverse_root(optimizer, 512, 40)

    optimizer, schedule = begin()
    rates = []
    for step in range(1, 201):
        rates.append(optimizer.param_groups[0]["lr"])
        assert rates[-1] == pytest.approx(
            2 * 512**-0.5 * min(step**-0.5, step * 40**-1.5)
        )
        if step == 100:
            optimizer_state, state = copy.deepcopy(
                (optimizer.state_dict(), schedule.state_dict())
            )
        optimizer.step()
        schedule.step()
    assert rates.index(max(rates)) == 40 - 1
    assert rates[39] == pytest.approx(2 * (512 * 40) ** -0.5)
    optimizer, schedule = begin()
    optimizer.load_state_dict(optimizer_state)
    schedule.load_state_dict(state)
    for rate in rates[99:]:
        assert optimizer.param_groups[0]["lr"] == rate
        optimizer.step()
        schedule.step()


@pytest.mark.cuda
def test_on_a_gpu_training_runs_there_in_half_precision_and_resumes(tmp_path):
    batches, path = Batches(PAIRS, 8, seed=0), tmp_path / "checkpoint.pt"
    whole = make_trainer()
    whole.fit(batches, 8, evaluate, every=4)
    assert next(whole.model.parameters()).is_cuda
    assert whole.accelerator.mixed_precision in ("bf16", "fp16")
    make_trainer().fit(batches, 4, evaluate, every=4, checkpoint=path)
    resumed = make_trainer()
    resumed.load(path)
    assert resumed.fit(batches, 8, evaluate, every=4) == whole.history
