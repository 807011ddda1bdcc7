"""The study of gates: its model, its figures, and that a run can be repeated."""

from attention_course.studies import gates, idle_heads
from companion.attention import GatedAttention


def test_every_layer_has_gates():
    model = gates.build()
    assert all(type(layer.attention) is GatedAttention for layer in model.layers)


def test_a_run_is_measured_as_it_is_recorded(monkeypatch):
    whole = idle_heads.texts
    for module in (idle_heads, gates):
        monkeypatch.setattr(
            module, "texts", lambda held_out, rows, seed: whole(held_out, 2, seed)
        )
    found = gates.measure(steps=1, learning_rate=0.005, seed=0)
    assert found == gates.measure(steps=1, learning_rate=0.005, seed=0)
    assert found != gates.measure(steps=1, learning_rate=0.005, seed=1)
    for name in ("weight", "gate"):
        for half in ("new", "copied"):
            layers = found[name][half]
            assert [len(heads) for heads in layers] == [4, 4]
            assert all(0 < x < 1 for heads in layers for x in heads)
