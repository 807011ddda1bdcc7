import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from attention_course.data.vocabulary import pad_documents
from companion.attention import HiddenDot, last_pooling, mean_pooling
from companion.models import (
    BahdanauEncoder,
    Classifier,
    HierarchicalAttention,
    HierarchicalEncoder,
)
from tests.reference import scalars, yang_2016
from tests.tiny import close, spread

VOCABULARY = 11
# The second document has sentences without words before, between and after its others.
DOCUMENTS = [
    [[4, 7, 5, 6], [9], [8, 8, 4]],
    [[], [5, 10, 3], [], [6, 4], []],
    [[7]],
]
TOKENS = pad_documents(DOCUMENTS)
documents = st.lists(
    st.lists(st.integers(3, VOCABULARY - 1), max_size=5), min_size=1, max_size=4
).filter(any)


def build(pooling=None):
    if pooling is None:
        return spread(HierarchicalAttention(VOCABULARY, 3, 4, 2, pad=0))
    encoder = HierarchicalEncoder(
        BahdanauEncoder(VOCABULARY, 3, 2, pad=0), pooling, 4, pad=0
    )
    return spread(Classifier(encoder, pooling, 4, 2))


def compare(model, tokens, document, row):
    """Logits and both levels' weights of one document equal the paper's; other weights are 0."""
    filled = [index for index, sentence in enumerate(document) if sentence]
    logits, expected_words, expected_sentences = yang_2016.hierarchical_attention(
        scalars.values(model), [document[index] for index in filled]
    )
    words, sentences = model.attention_maps(tokens)
    close(model(tokens)[row], logits)
    close(sentences[row, filled], expected_sentences)
    for index, weights in zip(filled, expected_words, strict=True):
        close(words[row, index, : len(weights)], weights)
    close(words[row].sum(), torch.tensor(float(len(filled))).double())
    close(sentences[row].sum(), torch.tensor(1.0).double())


@pytest.mark.parametrize("row", range(3))
def test_both_levels_equal_the_papers_equations(row):
    compare(build(), TOKENS, DOCUMENTS[row], row)


@given(st.lists(documents, min_size=1, max_size=3))
def test_documents_of_any_size_with_empty_sentences(batch):
    model, tokens = build(), pad_documents(batch)
    for row, document in enumerate(batch):
        compare(model, tokens, document, row)


@pytest.mark.parametrize("pooling", [None, mean_pooling, last_pooling])
def test_padding_other_documents_and_empty_sentences_change_nothing(pooling):
    model = build(pooling)
    batched = model(TOKENS)
    padded = torch.zeros(3, 9, 8, dtype=torch.int64)
    padded[:, : TOKENS.shape[1], : TOKENS.shape[2]] = TOKENS
    close(model(padded), batched)
    for row, document in enumerate(DOCUMENTS):
        alone = pad_documents([[sentence for sentence in document if sentence]])
        close(model(alone)[0], batched[row])


def test_the_sentences_of_a_batch_are_encoded_in_one_call():
    model, sizes = build(), []
    model.encoder.words.register_forward_hook(
        lambda module, inputs, output: sizes.append(inputs[0].shape)
    )
    model(TOKENS)
    assert sizes == [(6, 4)]


def test_the_values_are_the_states_and_not_the_projections():
    attention = spread(HiddenDot(4))
    source = torch.randn(3, 4, dtype=torch.float64)
    key, value = attention.project(source)
    close(key, torch.tanh(source @ attention.W.weight.T + attention.W.bias))
    assert value is source


def test_gradients():
    model = spread(HierarchicalAttention(VOCABULARY, 2, 2, 2, pad=0))
    names = [name for name, _ in model.named_parameters()]

    def logits(*parameters):
        return torch.func.functional_call(
            model, dict(zip(names, parameters, strict=True)), TOKENS[:2, :4]
        )

    assert gradcheck(
        logits,
        tuple(parameter.detach().requires_grad_() for parameter in model.parameters()),
    )


def test_every_parameter_gets_a_gradient_and_padding_none():
    model = build()
    model(TOKENS).square().sum().backward()
    assert not model.encoder.words.embedding.weight.grad[0].any()
    assert all(parameter.grad.abs().sum() > 1e-9 for parameter in model.parameters())


def test_zero_queries_make_both_attentions_means():
    model, means = build(), build(mean_pooling)
    parameters = model.state_dict()
    parameters["pooling.query"].zero_()
    parameters["encoder.pooling.query"].zero_()
    means.load_state_dict({name: parameters[name] for name in means.state_dict()})
    close(model(TOKENS), means(TOKENS))


@pytest.mark.parametrize(
    ("tokens", "rows"),
    [
        (
            torch.tensor([[[4, 5]], [[0, 0]]]),
            r"rows \[1\] of documents of shape \(2, 1, 2\)",
        ),
        (torch.zeros(1, 0, 3, dtype=torch.int64), r"rows \[0\] .* \(1, 0, 3\)"),
        (torch.zeros(2, 3, 0, dtype=torch.int64), r"rows \[0, 1\] .* \(2, 3, 0\)"),
    ],
)
def test_a_document_without_words_is_an_error_with_its_row(tokens, rows):
    with pytest.raises(ValueError, match=f"{rows} have no words"):
        build()(tokens)


def test_padding_before_a_word_is_an_error():
    with pytest.raises(ValueError, match="padding before a word"):
        build()(torch.tensor([[[4, 0, 5]]]))


def test_a_token_outside_the_vocabulary_is_an_error():
    with pytest.raises(ValueError, match="tokens run from 3 to 11"):
        build()(torch.tensor([[[3, 11]]]))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((VOCABULARY, 3, 5, 2), "size must be even, because it is halved, not 5"),
        ((VOCABULARY, 3, 0, 2), "size must be at least 1, not 0"),
        ((VOCABULARY, 0, 4, 2), "size must be at least 1, not 0"),
        ((VOCABULARY, 3, 4, 0), "classes must be at least 1, not 0"),
    ],
)
def test_invalid_sizes_are_errors(sizes, message):
    with pytest.raises(ValueError, match=message):
        HierarchicalAttention(*sizes, pad=0)
    with pytest.raises(ValueError, match="size must be at least 1, not 0"):
        HiddenDot(0)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("size", ["4", None, 4.0])
def test_sizes_that_are_no_integers_are_errors(size):
    with pytest.raises(TypeError, match=f"size must be an integer, not {size!r}"):
        HierarchicalAttention(VOCABULARY, 3, size, 2, pad=0)
    encoder = BahdanauEncoder(VOCABULARY, 3, 2, pad=0)
    with pytest.raises(TypeError, match=f"size must be an integer, not {size!r}"):
        HierarchicalEncoder(encoder, mean_pooling, size, pad=0)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("documents", "error", "message"),
    [
        (TOKENS[0], IndexError, "Dimension out of range"),
        (TOKENS[0, 0], IndexError, "Dimension out of range"),
        (TOKENS[:0], ValueError, r"\(0, 4\) has no words"),
        (TOKENS.double(), TypeError, r"must hold integers, not torch\.float64"),
        (TOKENS > 0, TypeError, r"must hold integers, not torch\.bool"),
    ],
)
def test_documents_of_another_shape_or_dtype_are_errors(documents, error, message):
    with pytest.raises(error, match=message):
        build()(documents)


SIZES = {
    "sentence_size": 6,
    "word_attention_size": 3,
    "sentence_attention_size": 5,
}


@pytest.mark.parametrize("names", [list(SIZES), *([name] for name in SIZES)])
def test_each_level_can_have_sizes_of_its_own(names):
    sizes = {name: SIZES[name] for name in names}
    model = spread(HierarchicalAttention(VOCABULARY, 3, 4, 2, **sizes, pad=0))
    sentence_size = sizes.get("sentence_size", 4)
    assert model.encoder(TOKENS)[0].shape[-1] == sentence_size
    assert model.encoder.pooling.query.shape == (sizes.get("word_attention_size", 4),)
    attention_size = sizes.get("sentence_attention_size", sentence_size)
    assert model.pooling.query.shape == (attention_size,)
    for row, document in enumerate(DOCUMENTS):
        compare(model, TOKENS, document, row)


def test_by_default_all_sizes_are_one():
    torch.manual_seed(0)
    default = HierarchicalAttention(VOCABULARY, 3, 4, 2, pad=0).state_dict()
    torch.manual_seed(0)
    sizes = dict.fromkeys(SIZES, 4)
    explicit = HierarchicalAttention(VOCABULARY, 3, 4, 2, **sizes, pad=0).state_dict()
    assert default.keys() == explicit.keys()
    assert all(torch.equal(default[name], explicit[name]) for name in default)


def test_sentences_without_attention_can_have_a_size_of_their_own():
    encoder = HierarchicalEncoder(
        BahdanauEncoder(VOCABULARY, 3, 2, pad=0),
        mean_pooling,
        4,
        sentence_size=10,
        pad=0,
    )
    states, mask = encoder(TOKENS)
    assert states.shape == (3, 5, 10)
    assert mask.sum(1).tolist() == [3, 2, 1]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast(dtype):
    model = build().float()
    with torch.autocast("cpu", dtype):
        logits = model(TOKENS)
    torch.testing.assert_close(logits.float(), model(TOKENS), atol=0.1, rtol=0.1)


@pytest.mark.cuda
def test_on_a_gpu():
    model = build().float()
    expected = [model(TOKENS), *model.attention_maps(TOKENS)]
    model, tokens = model.cuda(), TOKENS.cuda()
    for found, wanted in zip(
        [model(tokens), *model.attention_maps(tokens)], expected, strict=True
    ):
        torch.testing.assert_close(found.cpu(), wanted, atol=1e-4, rtol=1e-4)
