"""Hierarchical attention (Yang et al. 2016): over words, and then over sentences."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from companion._checks import check_even, check_positive, check_rows
from companion.attention.pooling import AttentionPooling
from companion.attention.recording import record_weights
from companion.attention.scores import HiddenDot
from companion.layers.gru import pytorch_gru
from companion.layers.recurrent import is_token, run_packed
from companion.models.bahdanau import BahdanauEncoder
from companion.models.text_classifier import Classifier, PoolingFunction


class HierarchicalEncoder(nn.Module):
    """States of a document's sentences, each first encoded and pooled to one vector.

    ::

        s_i = pooling(words(x_i)),   states = BiGRU(s_1, …, s_L)

    The sentences of all documents are one batch. A sentence without words is left out,
    wherever it is in its document.

    Args:
        words: returns states and mask of a batch of sentences, as
            :class:`~companion.models.bahdanau.BahdanauEncoder` does.
        pooling: makes one vector of ``size`` features of them, as in
            :class:`~companion.models.text_classifier.Classifier`.
        size: features of a sentence's vector.
        sentence_size: features of a sentence's state, both directions together;
            ``size`` if not given.
        pad: the token that is padding, as for ``words``; ``None`` if there is none.

    Source: Yang et al. 2016, section 2.2.

    Example:
        >>> from companion.attention import mean_pooling
        >>> words = BahdanauEncoder(11, 5, 3, pad=0)
        >>> encoder = HierarchicalEncoder(words, mean_pooling, 6, pad=0)
        >>> states, mask = encoder(torch.tensor([[[4, 7], [0, 0], [9, 0]]]))
        >>> states.shape, mask
        (torch.Size([1, 3, 6]), tensor([[ True,  True, False]]))
    """

    def __init__(
        self,
        words: nn.Module,
        pooling: PoolingFunction,
        size: int,
        sentence_size: int | None = None,
        pad: int | None = None,
    ):
        super().__init__()
        sentence_size = size if sentence_size is None else sentence_size
        check_positive(size=size)
        check_even(sentence_size=sentence_size)
        self.words, self.pooling, self.pad = words, pooling, pad
        self.rnn = pytorch_gru(size, sentence_size // 2, bidirectional=True)

    def forward(
        self, documents: Int[Tensor, "b s n"]
    ) -> tuple[Float[Tensor, "b s d"], Bool[Tensor, "b s"]]:
        """The states of each document's sentences, without gaps, and the mask of them."""
        has_words, mask = sentence_masks(documents, self.pad)
        vectors = self.pooling(*self.words(documents[has_words]))  # (sentences, d)
        sentences = vectors.new_zeros(*mask.shape, vectors.shape[-1])  # (b, s, d)
        sentences[mask] = vectors
        return run_packed(self.rnn, sentences, mask)[0], mask


class HierarchicalAttention(Classifier):
    """HAN: classifies documents by attention over words and attention over sentences.

    ::

        h_it = BiGRU(x_it),   α_it = softmax_t(u_wᵀ tanh(W_w h_it + b_w))
        s_i = Σ_t α_it h_it
        h_i = BiGRU(s_i),     α_i = softmax_i(u_sᵀ tanh(W_s h_i + b_s))
        v = Σ_i α_i h_i
        logits = W_c dropout(v) + b_c

    Args:
        vocabulary_size, embedding_size: how many words there are, and features of a
            word; the paper has 200.
        size: features of a word's state h_it, both directions together; the paper has
            100.
        classes: how many classes there are.
        dropout: the probability that a feature of v is zeroed in training.
        sentence_size: features of a sentence's state h_i, both directions together;
            ``size`` if not given.
        word_attention_size: features of u_w; ``size`` if not given.
        sentence_attention_size: features of u_s; ``sentence_size`` if not given.
        pad: the token that is padding; ``None`` if there is none.

    Source: Yang et al. 2016, section 2, equations (1) to (11).
    Deviation: the paper has no dropout; ours is off by default.
    Deviation: PyTorch's GRU has a second bias, inside the reset gate.

    Example:
        >>> model = HierarchicalAttention(11, 5, size=6, classes=2, pad=0)
        >>> documents = torch.tensor([[[4, 7, 5], [9, 0, 0]], [[8, 8, 0], [0, 0, 0]]])
        >>> words, sentences = model.attention_maps(documents)
        >>> words.sum(-1), sentences.sum(-1)
        (tensor([[1., 1.],
                [1., 0.]]), tensor([1., 1.]))
    """

    encoder: HierarchicalEncoder

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        size: int,
        classes: int,
        dropout: float = 0.0,
        *,
        sentence_size: int | None = None,
        word_attention_size: int | None = None,
        sentence_attention_size: int | None = None,
        pad: int | None = None,
    ):
        check_even(size=size)
        sentence_size = size if sentence_size is None else sentence_size
        encoder = HierarchicalEncoder(
            BahdanauEncoder(vocabulary_size, embedding_size, size // 2, pad=pad),
            _pooling(size, word_attention_size),
            size,
            sentence_size,
            pad,
        )
        pooling = _pooling(sentence_size, sentence_attention_size)
        super().__init__(encoder, pooling, sentence_size, classes, dropout)

    def attention_maps(
        self, documents: Int[Tensor, "b s n"]
    ) -> tuple[Float[Tensor, "b s n"], Float[Tensor, "b s"]]:
        """The weight of each word in its sentence, and each sentence in its document.

        Both are at the positions of the input: padding and sentences without words have
        0.
        """
        with torch.no_grad(), record_weights(self) as maps:
            self(documents)
        (word_weights,) = maps["encoder.pooling.attention"]  # (sentences, 1, n)
        (sentence_weights,) = maps["pooling.attention"]  # (b, 1, s)
        has_words, mask = sentence_masks(documents, self.encoder.pad)
        words = word_weights.new_zeros(documents.shape)
        words[has_words] = word_weights.squeeze(-2)
        sentences = sentence_weights.new_zeros(has_words.shape)
        sentences[has_words] = sentence_weights.squeeze(-2)[mask]
        return words, sentences


def _pooling(size: int, attention_size: int | None) -> AttentionPooling:
    """The paper's attention over states: HiddenDot with a learned query."""
    attention_size = size if attention_size is None else attention_size
    return AttentionPooling(HiddenDot(size, attention_size), attention_size)


def sentence_masks(
    documents: Int[Tensor, "b s n"], pad: int | None = None
) -> tuple[Bool[Tensor, "b s"], Bool[Tensor, "b s"]]:
    """Which sentences have words; and the same once the empty ones are left out.

    In the second mask a document's sentences come first, without gaps, so the two
    select the same sentences in the same order.

    Args:
        documents: token ids of s sentences with n words each, both padded.
        pad: the token that is padding; ``None`` if there is none.

    Example:
        >>> has_words, mask = sentence_masks(torch.tensor([[[4], [0], [9]]]), 0)
        >>> has_words, mask
        (tensor([[ True, False,  True]]), tensor([[ True,  True, False]]))
    """
    has_words = is_token(documents, pad).any(-1)
    check_rows(has_words.any(1), "documents", documents.shape, "have no words")
    counts = has_words.sum(1, keepdim=True)  # (b, 1)
    position = torch.arange(has_words.shape[1], device=documents.device)
    return has_words, position < counts
