import pytest
import torch

from tests.reference import bahdanau_2015, scalars
from tests.tiny import (
    SOURCE,
    TARGET,
    bahdanau,
    close,
    current_state,
    sentences,
    state_and_word,
)

VARIANTS = {
    "state_and_word": (state_and_word, bahdanau_2015.state_and_word_step),
    "current_state": (current_state, bahdanau_2015.current_state_step),
}


@pytest.mark.parametrize(("build", "step"), VARIANTS.values(), ids=VARIANTS.keys())
def test_the_whole_model_is_its_equations(build, step):
    model = build()
    logits = model(SOURCE, TARGET)
    state, weights = model.start(SOURCE), []
    for token in TARGET.unbind(1):
        _, state, attended = model.step(token, state)
        weights.append(attended)
    weights = torch.stack(weights, 1)
    for row, sentence in enumerate(sentences(SOURCE)):
        expected = bahdanau_2015.teacher_forced(
            scalars.values(model), step, sentence.tolist(), TARGET[row].tolist()
        )
        close(logits[row], expected[0])
        close(weights[row, :, : len(sentence)], expected[1])


def test_the_current_state_is_another_model_than_bahdanaus_with_the_same_parameters():
    paper, common = bahdanau(), current_state()
    common.load_state_dict(paper.state_dict())
    assert not torch.allclose(paper(SOURCE, TARGET), common(SOURCE, TARGET), atol=1e-2)


@pytest.mark.parametrize(
    ("build", "depends"),
    [(bahdanau, False), (state_and_word, True), (current_state, True)],
)
def test_whether_the_weights_depend_on_the_last_token(build, depends):
    model = build()
    state = model.start(SOURCE)
    three, four = (
        model.step(torch.full((3,), token), state).weights for token in (3, 4)
    )
    assert torch.allclose(three, four) == (not depends)


@pytest.mark.parametrize(
    ("build", "which"), [(bahdanau, "before"), (current_state, "after")]
)
def test_which_state_predicts_the_token(build, which):
    model, predicting = build(), []
    model.decoder.output.register_forward_pre_hook(
        lambda module, inputs: predicting.append(inputs[0])
    )
    before = model.start(SOURCE)
    after = model.step(torch.tensor([1, 1, 1]), before).state
    close(predicting[0], {"before": before, "after": after}[which].hidden)
