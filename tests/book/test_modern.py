"""Chapter 12's two figures: the page computes what the package computes, by pointer and by keys."""

import random

import pytest
import torch

from companion import attention
from companion.attention import masks
from companion.attention.linear_bias import LinearBias, alibi_slopes
from companion.attention.rotary import rotate


@pytest.fixture
def distances(visit_live):
    page = visit_live("12_modern", "live-distances")
    return page.locator(".tag_live-distances .play")


@pytest.fixture
def cache(visit_live):
    page = visit_live("12_modern", "live-cache")
    return page.locator(".tag_live-cache .play")


def by_page(part, name, arguments):
    """What a function of the page returns for each list of arguments."""
    return part.page.evaluate(
        "([name, all]) => all.map(one => Modern[name](...one))", [name, arguments]
    )


def test_rotations_and_biases_are_those_of_the_package(distances):
    torch.manual_seed(0)
    asked, rotated, turned, biased = [], [], [], []
    for size in random.Random(0).choices((2, 4, 8, 16, 64), k=200):
        j, i = torch.randint(0, 2000, (2,)).sort().values.tolist()
        query, key = torch.randn(2, 1, size, dtype=torch.float64)
        asked.append([query[0].tolist(), i, key[0].tolist(), j, random.random()])
        q, k = rotate(query, torch.tensor([i])), rotate(key, torch.tensor([j]))
        rotated.append(q[0].tolist())
        turned.append((q @ k.mT).item() / size**0.5)
        module = LinearBias(asked[-1][-1])
        scores = module.score(query, key.expand(j + 1, -1), torch.tensor([i]))
        biased.append(scores[0, -1].item())
    for name, expected, count in (
        ("rotate", rotated, 2),
        ("rotaryScore", turned, 4),
        ("alibiScore", biased, 5),
    ):
        found = by_page(distances, name, [one[:count] for one in asked])
        for one, other in zip(found, expected, strict=True):
            assert one == pytest.approx(other, abs=1e-9), name
    for heads in (1, 4, 8, 12):
        found = by_page(distances, "slope", [[a + 1, heads] for a in range(heads)])
        assert found == pytest.approx(alibi_slopes(heads))


def test_a_cache_keeps_what_the_package_keeps(cache):
    generator, asked, expected = random.Random(0), [], []
    for _ in range(12):
        window, sinks = generator.randint(1, 12), generator.randint(1, 6)
        module = attention.SinkAttention(window, sinks)
        position = torch.arange(30.0)[None, :, None]
        state = module.start(position[:, :0], position[:, :0])
        for n in range(1, 31):
            seen = [*state.key[0, :, 0].tolist(), n - 1]
            rule = masks.dense(masks.sink_window(window, sinks), n)
            assert rule[-1].nonzero()[:, 0].tolist() == seen
            asked.append([n, window, sinks])
            expected.append(seen)
            _, state = module.extend(*3 * [position[:, n - 1 : n]], state)
    found = by_page(cache, "kept", asked)
    for (n, *_), kept, seen in zip(asked, found, expected, strict=True):
        assert [*range(kept["first"]), *range(kept["start"], n)] == seen
        assert kept["count"] == len(seen)


def test_bytes_are_those_of_the_tensors_that_the_package_keeps(cache):
    rotary = attention.Rotary(attention.CausalAttention())
    for heads, key_value_heads, size in ((8, 8, 4), (8, 2, 16), (6, 1, 8)):
        setting = {"heads": key_value_heads, "size": size}
        module = attention.MultiHeadAttention(
            heads * size, heads, rotary, key_value_heads=key_value_heads
        )
        check_bytes(cache, module, heads * size, setting)
    module = attention.LatentAttention(48, 6, latent_size=10, rotary_size=4)
    check_bytes(cache, module, 48, {"latent": 10, "rotary": 4})


def check_bytes(cache, module, features, setting, tokens=7, layers=3):
    x = torch.zeros(1, tokens, features, dtype=torch.bfloat16)
    _, state = module.bfloat16().extend(x, module.start(x))
    kept = sum(part.numel() * part.element_size() for part in (state.key, state.value))
    (numbers,) = by_page(cache, "numbers", [[setting]])
    assert by_page(cache, "cacheBytes", [[layers, numbers, tokens]]) == [layers * kept]


def test_both_together_leave_the_score_and_one_alone_changes_it(distances):
    said, page = distances.get_by_role("status"), distances.page
    distances.get_by_role("button", name="Both 900 on").click()
    assert said.inner_text().endswith("still 3 and 0.69.")
    query, key, both = (
        distances.get_by_role("slider", name=name)
        for name in ("position i", "position j", "both positions")
    )
    for _ in range(3):
        query.press("ArrowRight")
    assert query.get_attribute("aria-valuenow") == "908"
    assert said.inner_text().endswith("→ 1.34.")
    key.press("Home")
    query.press("Home")  # no query is before its key
    assert query.get_attribute("aria-valuenow") == "900"
    both.press("End")
    assert both.get_attribute("aria-valuetext") == "query 931, key 931"
    distances.get_by_role("button", name="Both 900 back").click()
    box = key.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    step = distances.locator(".modern-line").bounding_box()["width"] / 31
    page.mouse.move(x, y)
    page.mouse.down()
    for n in (4, 20, 10):
        page.mouse.move(x - n * step, y + 30)
    page.mouse.up()
    page.mouse.move(x, y)
    assert key.get_attribute("aria-valuenow") == "21"
    assert said.inner_text().startswith("Distance 0 → 10, score 1.41 →")


def test_a_cache_fills_step_by_step_and_to_the_end(cache):
    said = cache.get_by_role("status").first
    cache.get_by_role("button", name="Reset").click()
    for _ in range(4):
        cache.get_by_role("button", name="Step").click()
    assert said.inner_text().startswith("Token 5: the window evicts key 1,")
    cache.get_by_role("slider", name="Tokens so far").press("End")
    for _ in range(8):
        cache.get_by_role("slider", name="Window").press("ArrowRight")
    for _ in range(2):
        cache.get_by_role("slider", name="Sinks").press("ArrowRight")
    words = cache.inner_text().replace("\u00a0", " ")
    assert "131,072 keys, 64 GiB" in words
    assert "window of 1,024 and 4 sinks: 1,028 keys, 514 MiB" in words
    cache.get_by_role("button", name="8, grouped").click()
    assert "131,072 keys, 16 GiB" in cache.inner_text().replace("\u00a0", " ")


def test_play_needs_no_motion(visit_live):
    page = visit_live("12_modern", "live-cache", reduced_motion="reduce")
    page.locator(".tag_live-cache").get_by_role("button", name="Play").click()
    assert "131,072 keys" in page.locator(".tag_live-cache .play").inner_text()


@pytest.mark.parametrize("typed", ["", "0", "-3", "1e3", "9" * 999, "<img src=x>"])
def test_what_is_no_number_of_layers_is_said_and_loses_nothing(cache, typed):
    before = cache.locator("p").last.inner_text()
    cache.get_by_label("layers").fill(typed)
    assert "whole number from 1" in cache.locator(".play-problem").inner_text()
    assert cache.get_by_label("layers").get_attribute("aria-invalid") == "true"
    assert cache.locator("img").count() == 0
    cache.get_by_label("layers").fill("32")
    assert cache.locator(".play-problem").inner_text() == ""
    assert cache.locator("p").last.inner_text() == before
