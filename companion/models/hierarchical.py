"""Hierarchical attention: words make sentences, sentences a document, and each level has its attention."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from companion._checks import check_even
from companion.attention.pooling import AttentionPooling
from companion.attention.recording import record_weights
from companion.attention.scores import HiddenDot
from companion.data.vocabulary import PAD
from companion.layers.recurrent import BahdanauEncoder, run_packed
from companion.models.text_classifier import Classifier, PoolingFunction


class HierarchicalEncoder(nn.Module):
    """States of a document's sentences, each of which is first read word by word and pooled to one vector.

    ::

        s_i = pooling(words(x_i)),   states = BiGRU(s_1, …, s_L)

    ``words`` gives states and mask of a batch of sentences, such as :class:`companion.layers.recurrent.BahdanauEncoder`;
    ``pooling`` makes one vector of ``size`` features of them, as in
    :class:`~companion.models.text_classifier.Classifier`. ``size`` counts the states of both directions too. The
    sentences of all documents are one batch. A sentence without words is no sentence, wherever it stands.

    Source: Yang et al. 2016, section 2.2.

    Raises:
        ValueError: ``size`` is below 1, or odd.
    """

    def __init__(self, words: nn.Module, pooling: PoolingFunction, size: int):
        super().__init__()
        check_even(size=size)
        self.words, self.pooling = words, pooling
        self.rnn = nn.GRU(size, size // 2, batch_first=True, bidirectional=True)

    def forward(
        self, documents: Int[Tensor, "b s n"]
    ) -> tuple[Float[Tensor, "b s d"], Bool[Tensor, "b s"]]:
        """The states of each document's sentences, from the left and without gaps, and the mask of them.

        Raises:
            ValueError: a document has no words, a sentence has padding before a word, or a token is outside
                the vocabulary.
        """
        spoken, mask = sentence_masks(documents)
        sentences = self.pooling(*self.words(documents[spoken]))
        placed = sentences.new_zeros(*mask.shape, sentences.shape[-1])
        placed[mask] = sentences
        return run_packed(self.rnn, placed, mask)[0], mask


class HierarchicalAttention(Classifier):
    """Classify a document by the words that count in the sentences that count.

    ::

        h_it = BiGRU(x_it),   α_it = softmax_t(u_wᵀ tanh(W_w h_it + b_w)),   s_i = Σ_t α_it h_it
        h_i = BiGRU(s_i),     α_i = softmax_i(u_sᵀ tanh(W_s h_i + b_s)),     v = Σ_i α_i h_i
        logits = W_c dropout(v) + b_c

    Source: Yang et al. 2016 (HAN), section 2, equations (1) to (11). ``size`` counts the features of both
    directions together; the paper's is 100, with words of 200 features. Deviations: dropout, if asked for;
    and PyTorch's GRU has a second bias, inside the reset gate.

    Raises:
        ValueError: a size is below 1, ``size`` is odd, or ``dropout`` is not between 0 and 1.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        size: int,
        classes: int,
        dropout: float = 0.0,
    ):
        check_even(size=size)
        words = BahdanauEncoder(vocabulary_size, embedding_size, size // 2)
        encoder = HierarchicalEncoder(
            words, AttentionPooling(HiddenDot(size), size), size
        )
        super().__init__(
            encoder, AttentionPooling(HiddenDot(size), size), size, classes, dropout
        )

    def attention_maps(
        self, documents: Int[Tensor, "b s n"]
    ) -> tuple[Float[Tensor, "b s n"], Float[Tensor, "b s"]]:
        """The share of each word in its sentence, and of each sentence in its document, where they stand.

        Raises:
            ValueError: as :meth:`HierarchicalEncoder.forward`.
        """
        with torch.no_grad(), record_weights(self) as maps:
            self(documents)
        (of_words,), (of_sentences,) = (
            maps["encoder.pooling.attention"],
            maps["pooling.attention"],
        )
        spoken, mask = sentence_masks(documents)
        words = of_words.new_zeros(documents.shape)
        words[spoken] = of_words.squeeze(-2)
        sentences = of_sentences.new_zeros(spoken.shape)
        sentences[spoken] = of_sentences.squeeze(-2)[mask]
        return words, sentences


def sentence_masks(
    documents: Int[Tensor, "b s n"],
) -> tuple[Bool[Tensor, "b s"], Bool[Tensor, "b s"]]:
    """Where sentences have words; and where these sentences stand once those between them are left out.

    Raises:
        ValueError: there is no document, or one has no words.
    """
    spoken = (documents != PAD).any(-1)
    counts = spoken.sum(1, keepdim=True)
    if not counts.numel() or not counts.all():
        silent = (counts == 0).flatten().nonzero().flatten().tolist()
        raise ValueError(
            f"of documents of {tuple(documents.shape)} the rows {silent} have no words"
        )
    return spoken, torch.arange(spoken.shape[1], device=documents.device) < counts
