import pytest
import torch

from companion.models import AttentionMean, AttentionOverAttention, AttentionSum
from tests.reference import cui_2017, scalars
from tests.tiny import close, spread

READERS = [AttentionSum, AttentionMean, AttentionOverAttention]
each_reader = pytest.mark.parametrize("reader", READERS)
DOCUMENT = torch.tensor([[3, 4, 5, 3, 6], [7, 3, 4, 0, 0], [5, 0, 0, 0, 0]])
QUESTION = torch.tensor([[4, 2], [6, 0], [3, 5]])


def build(reader):
    return spread(reader(8, 5, 6, pad=0))


@each_reader
def test_weights_sum_to_one_over_the_words(reader):
    weights = build(reader)(DOCUMENT, QUESTION)
    close(weights.sum(-1), torch.ones(3).double())
    assert not weights[DOCUMENT == 0].any()
    assert (weights[DOCUMENT != 0] > 0).all()


@each_reader
def test_padding_and_other_rows_change_nothing(reader):
    model = build(reader)
    batched = model(DOCUMENT, QUESTION)
    for row, (document, question) in enumerate(zip(DOCUMENT, QUESTION, strict=True)):
        document, question = document[document != 0], question[question != 0]
        alone = model(document[None], question[None])[0]
        close(alone, batched[row, : len(document)])


def states(model, document, question):
    """The states of both GRUs for one text each, without packing."""
    return (
        rnn(model.embedding(tokens)[None])[0][0]
        for rnn, tokens in (
            (model.document_rnn, document),
            (model.question_rnn, question),
        )
    )


@each_reader
def test_each_reader_equals_its_equations(reader):
    model = build(reader)
    document, question = DOCUMENT[0], QUESTION[0]
    document_states, question_states = states(model, document, question)
    scores = (document_states @ question_states.mT).tolist()
    alone = [scalars.softmax(column) for column in scalars.transposed(scores)]
    query = torch.cat([question_states[-1, :3], question_states[0, 3:]])
    expected = {
        AttentionSum: lambda: scalars.softmax((document_states @ query).tolist()),
        AttentionMean: lambda: [
            sum(column) / len(alone) for column in scalars.transposed(alone)
        ],
        AttentionOverAttention: lambda: cui_2017.attention_over_attention(scores),
    }
    close(model(document[None], question[None])[0], expected[reader]())


@each_reader
@pytest.mark.parametrize(
    ("document", "question"),
    [([[0, 0]], [[3]]), ([[3]], [[0]]), ([[0, 3]], [[3]]), ([[3]], [[0, 3]])],
)
def test_an_empty_text_or_padding_before_a_word_is_an_error(reader, document, question):
    with pytest.raises(
        ValueError, match=r"rows \[0\] .* are empty, or have padding before a word"
    ):
        build(reader)(torch.tensor(document), torch.tensor(question))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 5, 6), "vocabulary_size must be at least 1, not 0"),
        ((8, 0, 6), "embedding_size"),
        ((8, 5, 7), "size must be even, because it is halved, not 7"),
    ],
)
def test_invalid_sizes_are_errors(sizes, message):
    with pytest.raises(ValueError, match=message):
        AttentionSum(*sizes, pad=0)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("size", ["6", None, 2.5])
def test_sizes_that_are_no_integers_are_errors(size):
    for sizes in ((size, 5, 6), (8, size, 6), (8, 5, size)):
        with pytest.raises(TypeError, match=f"size must be an integer, not {size!r}"):
            AttentionSum(*sizes, pad=0)


@pytest.mark.usefixtures("unchecked")
@each_reader
@pytest.mark.parametrize("count", [1, 2])
def test_documents_and_questions_that_make_no_pairs_are_an_error(reader, count):
    message = f"3 documents and {count} questions do not make pairs"
    with pytest.raises(ValueError, match=message):
        build(reader)(DOCUMENT, QUESTION[:count])


@pytest.mark.usefixtures("unchecked")
@each_reader
def test_texts_of_another_shape_or_dtype_are_errors(reader):
    model = build(reader)
    for document, question in ((DOCUMENT[0], QUESTION), (DOCUMENT, QUESTION[0])):
        with pytest.raises(ValueError, match=r"not \(\d,\)"):
            model(document, question)
    for document, question in (
        (DOCUMENT.double(), QUESTION),
        (DOCUMENT, QUESTION.double()),
    ):
        with pytest.raises(TypeError, match=r"integers, not torch\.float64"):
            model(document, question)
