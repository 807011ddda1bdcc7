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
    return spread(reader(8, 5, 6))


@each_reader
def test_shares_sum_to_one_over_the_words(reader):
    shares = build(reader)(DOCUMENT, QUESTION)
    close(shares.sum(-1), torch.ones(3).double())
    assert not shares[DOCUMENT == 0].any()
    assert (shares[DOCUMENT != 0] > 0).all()


@each_reader
def test_padding_and_company_change_nothing(reader):
    model = build(reader)
    together = model(DOCUMENT, QUESTION)
    for row, (document, question) in enumerate(zip(DOCUMENT, QUESTION, strict=True)):
        words, asked = document[document != 0], question[question != 0]
        close(model(words[None], asked[None])[0], together[row, : len(words)])


def states(model, document, question):
    """What both GRUs say of one text each, by a call of their own."""
    return (
        rnn(model.embedding(tokens)[None])[0][0]
        for rnn, tokens in (
            (model.document_rnn, document),
            (model.question_rnn, question),
        )
    )


@each_reader
def test_the_whole_reader_is_the_papers(reader):
    model = build(reader)
    document, question = DOCUMENT[0], QUESTION[0]
    words, asked = states(model, document, question)
    scores = (words @ asked.mT).tolist()
    alone = [scalars.softmax(column) for column in scalars.transposed(scores)]
    summary = torch.cat([asked[-1, :3], asked[0, 3:]])
    expected = {
        AttentionSum: lambda: scalars.softmax((words @ summary).tolist()),
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
def test_a_text_of_no_words_or_with_padding_before_one_is_an_error(
    reader, document, question
):
    with pytest.raises(
        ValueError, match=r"rows \[0\] are empty, or have padding before a word"
    ):
        build(reader)(torch.tensor(document), torch.tensor(question))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 5, 6), "vocabulary_size must be at least 1, not 0"),
        ((8, 0, 6), "embedding_size"),
        ((8, 5, 7), "size must be even, to be halved, but is 7"),
    ],
)
def test_bad_sizes_are_errors(sizes, message):
    with pytest.raises(ValueError, match=message):
        AttentionSum(*sizes)
