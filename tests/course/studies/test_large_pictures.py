"""The study of large pictures: what each method encodes, and that a run can be repeated."""

from functools import partial

import pytest
import torch

from attention_course.studies import large_pictures as study
from attention_course.studies.large_pictures import (
    RegionReader,
    pictures,
    selected_by_ink,
)

RUNS = [pytest.param(*one, id=f"{one[0]}, {one[1]}") for one in study.ENCODED]


def test_no_image_of_a_digit_is_in_two_sets():
    images = []
    for part in ("training", "validation", "test"):
        data = pictures(part)
        regions = data.regions[torch.arange(len(data.cells)), data.cells]
        images.append({region.numpy().tobytes() for region in regions})
    assert len(set.union(*images)) == sum(map(len, images))


def test_the_rule_keeps_the_eight_regions_nearest_to_a_digits_mean_ink():
    whole, part = pictures("test"), selected_by_ink("test")
    train = pictures("training")
    usual = train.regions[torch.arange(4_000), train.cells].mean()
    for row in range(20):
        distance = (whole.regions[row].mean(-1) - usual).abs()
        nearest = distance.sort().indices[:8]
        torch.testing.assert_close(part.regions[row], whole.regions[row, nearest])
        place = part.cells[row].item()
        if place < 0:
            assert whole.cells[row] not in nearest
        else:
            assert nearest[place] == whole.cells[row]
    assert torch.equal(part.labels, whole.labels)


class Counter(torch.nn.Module):
    """How many regions an encoder encodes."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder, self.regions = encoder, []

    def forward(self, x):
        self.regions.append(x.shape[1])
        return self.encoder(x)


@pytest.mark.parametrize(("method", "encoded"), RUNS)
def test_a_method_encodes_as_many_regions_as_it_says(method, encoded):
    torch.manual_seed(0)
    model = RegionReader(method, encoded)
    model.encoder = counter = Counter(model.encoder)
    shown = selected_by_ink if method == "selected by ink" else pictures
    regions = shown("test").regions[:5]
    digits, samples = model(regions)
    assert counter.regions == [encoded]
    torch.testing.assert_close(digits.exp().sum(-1), torch.ones(5))
    assert (samples is not None) == (method == "REINFORCE")
    model.read(regions, 3)
    assert counter.regions == [encoded, 3]


def encoded_regions(model):
    """A list that receives the regions which the model encodes from now on."""
    chosen, encode = [], model.encode
    model.encode = lambda regions, rows: chosen.append(rows) or encode(regions, rows)
    return chosen


@pytest.mark.parametrize("method", ["REINFORCE", "attention sampling"])
def test_samples_have_the_probabilities_of_the_scores(method):
    torch.manual_seed(0)
    model = RegionReader(method, 500)
    chosen = encoded_regions(model)
    with torch.no_grad():
        model.glance[-1].weight *= 20
        regions = pictures("test").regions[:1]
        for _ in range(40):
            model(regions)
        expected = model.scores(regions).softmax(-1)[0]
    frequency = torch.cat(chosen).flatten().bincount(minlength=64) / 20_000
    torch.testing.assert_close(frequency, expected, atol=0.02, rtol=0)
    assert expected.max() > 0.05


@pytest.mark.parametrize("method", ["top k", "noisy top k"])
def test_only_noise_lets_top_k_choose_differently(method):
    torch.manual_seed(0)
    model = RegionReader(method, 2)
    chosen = encoded_regions(model)
    regions = pictures("test").regions[:1]
    with torch.no_grad():
        for _ in range(20):
            model(regions)
        largest = model.scores(regions).topk(2).indices
    assert all(torch.equal(rows, largest) for rows in chosen) == (method == "top k")


def test_the_first_region_alone_gives_the_scores_no_gradient():
    torch.manual_seed(0)
    model = RegionReader("top k", 1)
    model(pictures("test").regions[:5])[0].sum().backward()
    assert not any(one.grad.any() for one in model.glance.parameters())
    assert model.encoder[0].weight.grad.any()


def test_a_reader_of_thumbnails_sees_nothing_else():
    torch.manual_seed(0)
    model = RegionReader("thumbnail only", 64)
    regions = pictures("test").regions[:2]
    blurred = study.thumbnails(regions).repeat_interleave(4, -1)
    blurred = blurred.repeat_interleave(4, -2).flatten(-2)
    torch.testing.assert_close(model(regions)[0], model(blurred)[0])
    torch.testing.assert_close(model.read(regions, 4), model.read(blurred, 4))


def test_with_all_regions_soft_attention_reads_as_it_was_trained():
    regions = pictures("test").regions[:4]
    for method in ("soft", "exact likelihood"):
        torch.manual_seed(0)
        model = RegionReader(method, 64)
        torch.testing.assert_close(model(regions)[0], model.read(regions, 64))


def test_the_exact_likelihood_is_the_sum_over_regions():
    torch.manual_seed(0)
    model, regions = RegionReader("exact likelihood", 64), pictures("test").regions[:1]
    alpha = model.scores(regions).softmax(-1)[0]
    each = [model.output(model.encoder(region)).softmax(-1) for region in regions[0]]
    expected = sum(weight * one for weight, one in zip(alpha, each, strict=True))
    torch.testing.assert_close(model(regions)[0][0].exp(), expected)


@pytest.mark.parametrize(("method", "encoded"), RUNS)
def test_a_run_is_measured_as_it_is_recorded(monkeypatch, method, encoded):
    monkeypatch.setattr(study, "train", partial(study.train, steps=2))
    found = study.measure(method, encoded, 0.01, seed=0)
    assert set(found) == {"validation", "test", "first"}
    assert len(found["test"]) == (4 if method == "selected by ink" else 7)
    first, again, other = (
        study.train(method, encoded, 0.01, seed, steps=2) for seed in (0, 0, 1)
    )
    for name, parameter in first.named_parameters():
        assert torch.equal(parameter, again.get_parameter(name))
    assert not torch.equal(first.output.weight, other.output.weight)
