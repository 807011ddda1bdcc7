import copy
import pickle
import threading

import pytest
import torch

from companion.attention import KVCache
from companion.attention.cache import _Buffer
from companion.decoding import map_state


def positions(count, first=0, batch=2):
    """Keys and values that say which position they are of, with 3 and 5 features."""
    n = torch.arange(first, first + count)[None, None, :, None]
    return n.expand(batch, 4, -1, 3).double(), -n.expand(batch, 4, -1, 5).double()


def contains(cache, count):
    return all(torch.equal(x, y) for x, y in zip(cache, positions(count), strict=True))


@pytest.fixture(params=["grad", "no_grad", "inference"])
def mode(request):
    kinds = {"no_grad": torch.no_grad, "inference": torch.inference_mode}
    with kinds.get(request.param, torch.enable_grad)():
        yield request.param


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("steps", [[1] * 40, [0, 3, 1, 1, 17, 1, 2, 40, 1]])
def test_every_cache_of_a_sequence_keeps_its_positions(steps):
    cache, length, caches = KVCache(*positions(0)), 0, []
    for new in steps:
        cache, length = cache.extended(*positions(new, length)), length + new
        caches.append((cache, length))
    assert all(contains(*each) for each in caches)


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("shared", [1, 2, 3, 10])
def test_continuations_of_one_cache_are_independent(shared):
    past = KVCache(*positions(0))
    for n in range(shared):
        past = past.extended(*positions(1, n))
    branches = []
    for branch in range(3):
        cache = past
        for n in range(5):
            cache = cache.extended(*positions(1, 100 * branch + n))
        branches.append(cache)
    assert contains(past, shared)
    for branch, cache in enumerate(branches):
        assert contains(KVCache(*(x[:, :, :shared] for x in cache)), shared)
        found = cache.key[0, 0, shared:, 0].tolist()
        assert found == [100 * branch + n for n in range(5)]


@torch.no_grad()
def test_a_reordered_cache_is_independent_of_its_origin():
    cache = KVCache(*positions(4))
    for n in range(4, 9):
        cache = cache.extended(*positions(1, n))
    reordered = map_state(lambda x: x[[1, 0]], cache)
    assert type(reordered) is KVCache
    longer = [x.extended(*positions(1, 9)) for x in (cache, reordered)]
    assert all(contains(x, 10) for x in longer)
    assert contains(cache, 9)


def addresses(steps):
    """Where the keys of each cache lie, from the third on."""
    cache, found = KVCache(*positions(64)), []
    for n in range(64, 64 + steps):
        cache = cache.extended(*positions(1, n))
        found.append(cache.key.data_ptr())
    return found[2:]


def test_without_gradients_a_cache_is_not_copied_at_every_step():
    with torch.no_grad():
        assert len(set(addresses(60))) == 1
    assert len(set(addresses(60))) > 1


def test_a_cache_that_grew_without_gradients_continues_with_them():
    with torch.no_grad():
        cache = KVCache(*positions(2))
        for n in range(2, 6):
            cache = cache.extended(*positions(1, n))
    key, value = (x.clone().requires_grad_() for x in positions(1, 6))
    longer = cache.extended(key, value)
    product = (longer.key * longer.key).sum()
    with torch.no_grad():  # writes behind the cache, whose keys the gradient needs
        assert contains(cache.extended(*positions(1, 6)), 7)
    product.backward()
    assert torch.equal(key.grad, 2 * key)


def test_a_cache_made_in_inference_mode_continues_outside():
    with torch.inference_mode():
        cache = KVCache(*positions(2))
        for n in range(2, 6):
            cache = cache.extended(*positions(1, n))
    with torch.no_grad():
        for n in range(6, 10):
            cache = cache.extended(*positions(1, n))
    assert contains(cache, 10)


@torch.no_grad()
def test_keys_of_another_batch_or_type_are_not_broadcast_or_rounded():
    cache = KVCache(*(x.float() for x in positions(2)))
    for n in range(2, 6):
        cache = cache.extended(*(x.float() for x in positions(1, n)))
    third = torch.full((2, 4, 1, 3), 1 / 3, dtype=torch.float64)
    longer = cache.extended(third, torch.zeros(2, 4, 1, 5, dtype=torch.float64))
    assert (longer.key[:, :, -1] == 1 / 3).all()
    with pytest.raises(RuntimeError, match="Expected size 2 but got size 1"):
        cache.extended(*(x.float() for x in positions(1, 6, batch=1)))


def grown(count):
    """A cache that has memory for more positions behind its own."""
    cache = KVCache(*positions(2))
    for n in range(2, count):
        cache = cache.extended(*positions(1, n))
    return cache


@torch.no_grad()
def test_threads_that_extend_one_cache_at_once_do_not_share_memory(monkeypatch):
    write, both = _Buffer.write, threading.Barrier(2, timeout=10)

    def late(*arguments):
        both.wait()  # until the other thread is about to write as well
        return write(*arguments)

    past, found = grown(6), {}
    monkeypatch.setattr(_Buffer, "write", late)

    def extend(first):
        with torch.no_grad():
            found[first] = past.extended(*positions(1, first))

    threads = [threading.Thread(target=extend, args=(n,)) for n in (100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for first, cache in found.items():
        assert contains(KVCache(*(x[:, :, :6] for x in cache)), 6)
        assert cache.key[0, 0, 6:, 0].tolist() == [first]
    assert len(found) == 2


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize(
    "change",
    [lambda x: x[..., :1], lambda x: x[:, :1], lambda x: x[:1], lambda x: x[0]],
)
@torch.no_grad()
def test_new_positions_are_never_broadcast(part, change):
    new = list(positions(1, 6))
    new[part] = change(new[part])
    with pytest.raises(
        RuntimeError, match=r"Sizes of tensors|same number of dimensions"
    ):
        grown(6).extended(*new)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("part", [0, 1])
@torch.no_grad()
def test_new_positions_are_never_rounded(part):
    new = list(positions(1, 6))
    past = map_state(torch.Tensor.float, grown(6))
    past = past.extended(*(x.float() for x in positions(1, 6)))
    new[part] = torch.full_like(new[part], 1 / 3)
    new[1 - part] = new[1 - part].float()
    longer = past.extended(*new)
    assert longer[part].dtype == torch.float64
    assert (longer[part][:, :, -1] == 1 / 3).all()


@pytest.mark.usefixtures("unchecked")
@torch.no_grad()
def test_fewer_values_than_keys_are_not_repeated():
    key, value = positions(2, 6)[0], positions(1, 6)[1]
    longer = grown(6).extended(key, value)
    assert (longer.key.shape[-2], longer.value.shape[-2]) == (8, 7)


COPIES = {
    "pickle": lambda cache: pickle.loads(pickle.dumps(cache)),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
}


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
def test_a_copy_is_its_tensors_and_continues_as_the_cache_does(duplicate):
    cache = grown(6)
    other = duplicate(cache)
    assert type(other) is KVCache
    assert all(x.untyped_storage().nbytes() == x.nbytes for x in other)
    for n in range(6, 9):
        cache, other = (x.extended(*positions(1, n)) for x in (cache, other))
    assert contains(cache, 9)
    assert contains(other, 9)
