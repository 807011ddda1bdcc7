import pytest
import torch

from companion.seq2seq import ChoDecoder, ChoEncoder
from tests import reference
from tests.tiny import SOURCE, TARGET, bahdanau, cho, close, sentences


def test_cho_is_the_papers():
    model = cho()
    logits = model(SOURCE, TARGET)
    for row, sentence in enumerate(sentences(SOURCE)):
        close(logits[row], reference.cho(reference.values(model), sentence.tolist(), TARGET[row].tolist()))


def test_cho_does_not_look_at_the_source():
    model = cho()
    step = model.step(torch.tensor([1, 1, 1]), model.start(SOURCE))
    assert step.weights is None
    assert [x.shape for x in step.state] == [(3, 4), (3, 5)]


def test_cho_sees_the_same_vector_at_every_word():
    model = cho()
    before = model.start(SOURCE)
    after = model.step(torch.tensor([1, 3, 4]), before).state
    assert torch.equal(before.context, after.context)
    assert not torch.allclose(before.hidden, after.hidden)


def test_the_output_is_conditioned_on_the_decoders_new_state():
    model, seen = cho(), []
    model.decoder.output.register_forward_pre_hook(lambda module, inputs: seen.append(inputs))
    state = model.start(SOURCE)
    after = model.step(torch.tensor([1, 3, 4]), state).state
    hidden, _, context = seen[0]
    close(hidden[:, 0], after.hidden)
    close(context[:, 0], state.context)


def test_encoder_decoder_hands_over_all_that_the_encoder_returns():
    model = bahdanau()
    whole, parts = model.start(SOURCE), model.decoder.start(*model.encoder(SOURCE))
    close(whole.hidden, parts.hidden)
    close(whole.memory.key, parts.memory.key)
    assert torch.equal(whole.memory.mask, SOURCE != 0)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("build", [bahdanau, cho])
@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (SOURCE, TARGET[:2], r"target of shape \(2, 5\) does not fit 3 source"),
        (SOURCE, TARGET[:, :0], r"target of shape \(3, 0\) does not fit 3 source"),
        (SOURCE[:, :0], TARGET, r"\(3, 0\) has no words"),
        (SOURCE[:0], TARGET[:0], r"\(0, 7\) has no words"),
        (SOURCE.flip(1), TARGET, r"rows \[0, 1\] .*padding before a word"),
        (SOURCE * 2, TARGET, "to 20.* 11 entries"),
        (SOURCE, TARGET * 2, "to 8.* 5 entries"),
    ],
)
def test_what_is_no_batch_of_pairs_is_an_error(build, source, target, message):
    with pytest.raises(ValueError, match=message):
        build()(source, target)


def test_a_hidden_size_that_cannot_be_halved_is_an_error():
    with pytest.raises(ValueError, match=r"even.* 7"):
        ChoDecoder(5, 3, hidden_size=7, context_size=4)


def test_a_vector_of_another_size_is_an_error():
    with pytest.raises(ValueError, match="context has 6 features, but 4"):
        ChoDecoder(5, 3, hidden_size=8, context_size=4).start(torch.randn(2, 6))


def test_dropout_is_in_training_only():
    torch.manual_seed(0)
    encoder, decoder = ChoEncoder(11, 8, 4, dropout=0.5), ChoDecoder(5, 8, 6, 4, dropout=0.5)
    state = decoder.start(*encoder(SOURCE))
    assert not torch.allclose(encoder(SOURCE)[0], encoder(SOURCE)[0])
    assert not torch.allclose(decoder(TARGET, state), decoder(TARGET, state))
    assert torch.equal(decoder.eval()(TARGET, state), decoder(TARGET, state))
    assert torch.equal(encoder.eval()(SOURCE)[0], encoder(SOURCE)[0])
