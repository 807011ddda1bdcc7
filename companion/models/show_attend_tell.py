"""Show, attend and tell (Xu et al. 2015): an image becomes a grid of features, and the grid a caption."""

from copy import deepcopy
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from companion._checks import (
    check_kind,
    check_positive,
    check_size,
    check_target,
)
from companion.attention.base import Attention
from companion.attention.hard import HardAttention, SampledAttention, entropy
from companion.decoding.state import DecoderStep, Memory
from companion.layers.embedding import Embedding

_IMAGE, _GRID, _EDGE = (1, 32, 32), 8, 6.0


class ImageEncoder(nn.Module):
    """Three convolutions, from an image of 32 × 32 to a vector for each field of a grid of 8 × 8.

    ::

        pool(ReLU(conv 3×3(x))),   pool(ReLU(conv 3×3(·))),   [ReLU(conv 1×1(·)); row; column]

    The last two of the ``size`` features say where on the grid a field lies, from −6 to 6, for attention
    itself knows no order; were they as small as the others, neighbours could hardly be told apart. Fields
    come row by row, 64 in all; field i sees its own 4 × 4 pixels and three more on each side, so that a look
    at it is a look there. Deviation: Xu et al. 2015 take a large network (VGG) trained on photographs.

    Raises:
        ValueError: ``size`` is below 3, or images have another size than 1 × 32 × 32.
    """

    def __init__(self, size: int = 64):
        super().__init__()
        if size < 3:
            raise ValueError(
                f"the size must be at least 3, of which two are row and column, not {size}"
            )
        narrow, wide = 3 * size // 8, 3 * size // 2
        self.first = nn.Conv2d(1, narrow, 3, padding=1)
        self.second = nn.Conv2d(narrow, wide, 3, padding=1)
        self.third = nn.Conv2d(wide, size - 2, 1)
        self.pool = nn.MaxPool2d(2)

    def forward(
        self, images: Float[Tensor, "b 1 32 32"]
    ) -> tuple[Float[Tensor, "b 64 s"], Bool[Tensor, "b 64"]]:
        """The features of each field, the paper's annotations a_i, and a mask, which is true everywhere."""
        if images.shape[1:] != _IMAGE:
            raise ValueError(
                f"images must have the shape (b, 1, 32, 32), not {tuple(images.shape)}"
            )
        hidden = self.pool(self.first(images).relu())
        hidden = self.pool(self.second(hidden).relu())
        features = self.third(hidden).relu()
        line = torch.linspace(
            -_EDGE, _EDGE, _GRID, device=features.device, dtype=features.dtype
        )
        place = torch.stack(torch.meshgrid(line, line, indexing="ij")).expand(
            len(images), -1, -1, -1
        )
        annotations = torch.cat([features, place], 1).flatten(2).mT
        return annotations, torch.ones_like(annotations[..., 0], dtype=torch.bool)


class CaptionerState(NamedTuple):
    """Between two words: the LSTM's h and c, the image, and what the last look brought, at first zero."""

    hidden: Float[Tensor, "b h"]
    cell: Float[Tensor, "b h"]
    memory: Memory
    context: Float[Tensor, "b v"]
    attended: SampledAttention
    position: Int[Tensor, " b"]


class CaptionOutput(nn.Module):
    """The scores of the next word, by a layer in which word, state and context meet.

    ::

        logits = L_o (E y + L_h h + L_z ẑ)

    Source: Xu et al. 2015, equation (7). Deviation: a bias in L_o.
    """

    def __init__(
        self,
        hidden_size: int,
        embedding_size: int,
        context_size: int,
        vocabulary_size: int,
    ):
        super().__init__()
        self.L_h = nn.Linear(hidden_size, embedding_size, bias=False)
        self.L_z = nn.Linear(context_size, embedding_size, bias=False)
        self.L_o = nn.Linear(embedding_size, vocabulary_size)

    def forward(
        self,
        hidden: Float[Tensor, "*b h"],
        embedded: Float[Tensor, "*b e"],
        context: Float[Tensor, "*b c"],
    ) -> Float[Tensor, "*b vocabulary"]:
        """Unnormalised log-probabilities of the next word, for one step or for all steps at once."""
        return self.L_o(embedded + self.L_h(hidden) + self.L_z(context))


class Captioner(nn.Module):
    """Before each word, look at the image softly; how much the look counts is one number, the gate β.

    ::

        h_0 = tanh(W_h ā + b_h),   c_0 = tanh(W_c ā + b_c),   ā = mean of the annotations a_i
        α_t = masked_softmax(f_att(h_{t−1}, a)),   β_t = σ(f_β(h_{t−1})),   ẑ_t = β_t Σ_i α_ti a_i
        h_t, c_t = LSTM([y_{t−1}; ẑ_t], h_{t−1}, c_{t−1})
        p(y_t) = softmax(L_o (E y_{t−1} + L_h h_t + L_z ẑ_t))

    Source: Xu et al. 2015, sections 3.1.2 and 4.2.1. β is a scalar, as in the paper. ``attention`` is f_att,
    :class:`~companion.attention.additive.Additive` in the paper's form; a Gumbel-softmax around it serves as well.
    Deviations: PyTorch's LSTM, and no dropout.

    Raises:
        ValueError: a size is below 1.
        TypeError: the attention is not of the kind that the captioner ``attention_type``, or goes by the query's
            place.
    """

    attention_type: type = Attention  #: the kind of attention that it looks with

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        hidden_size: int,
        source_size: int,
        attention: Attention | HardAttention,
    ):
        super().__init__()
        check_kind(self, attention, self.attention_type)
        check_positive(hidden_size=hidden_size, source_size=source_size)
        self.embedding = Embedding(vocabulary_size, embedding_size)
        self.attention: Any = attention
        self.W_h = nn.Linear(source_size, hidden_size)
        self.W_c = nn.Linear(source_size, hidden_size)
        self.f_beta = nn.Linear(hidden_size, 1)
        self.cell = nn.LSTMCell(embedding_size + source_size, hidden_size)
        self.output = CaptionOutput(
            hidden_size, embedding_size, source_size, vocabulary_size
        )

    def start(
        self, annotations: Float[Tensor, "b k s"], mask: Bool[Tensor, "b k"]
    ) -> CaptionerState:
        """Project the annotations, once, and begin from their mean."""
        check_size("source", annotations, self.W_h.in_features)
        among = mask[..., None].to(annotations.dtype)
        mean = (annotations * among).sum(1) / among.sum(1).clamp_min(1)
        key, value = self.attention.project(annotations)
        context = torch.zeros_like(annotations[:, 0])
        none, zero = (
            torch.zeros_like(annotations[:, :, 0]),
            torch.zeros_like(context[:, 0]),
        )
        return CaptionerState(
            self.W_h(mean).tanh(),
            self.W_c(mean).tanh(),
            Memory(key, value, mask),
            context,
            SampledAttention(none, zero, zero),
            torch.zeros_like(mask[:, 0], dtype=torch.long),
        )

    def attend(
        self,
        query: Float[Tensor, "b 1 h"],
        memory: Memory,
        position: Int[Tensor, "b 1"],
    ) -> SampledAttention:
        """Soft attention to every region. Nothing is sampled, so log_prob is 0."""
        weights = self.attention.weights(
            query, memory.key, memory.mask[:, None], position
        )
        return SampledAttention(
            weights, torch.zeros_like(weights[..., 0]), entropy(weights)
        )

    def recurrent_step(
        self, embedded: Float[Tensor, "b e"], state: CaptionerState
    ) -> CaptionerState:
        """From y_{t−1} and h_{t−1}: attend, then read the word and the context."""
        attended = self.attend(
            state.hidden[:, None], state.memory, state.position[:, None]
        )
        attended = SampledAttention(*(part.squeeze(1) for part in attended))
        average = (attended.weights[:, None] @ state.memory.value).squeeze(1)
        context = self.f_beta(state.hidden).sigmoid() * average  # ẑ_t
        hidden, cell = self.cell(
            torch.cat([embedded, context], -1), (state.hidden, state.cell)
        )
        return CaptionerState(
            hidden, cell, state.memory, context, attended, state.position + 1
        )

    def step(self, token: Int[Tensor, " b"], state: CaptionerState) -> DecoderStep:
        """Scores of the word after ``token``."""
        embedded = self.embedding(token)
        state = self.recurrent_step(embedded, state)
        return DecoderStep(
            self.output(state.hidden, embedded, state.context),
            state,
            state.attended.weights,
        )

    def trace(
        self, target: Int[Tensor, "b t"], state: CaptionerState
    ) -> tuple[Float[Tensor, "b t vocabulary"], SampledAttention]:
        """Scores of the word after each word of ``target``, and the look before each: one query a step.

        Raises:
            ValueError: the target has no word, or another number of captions than there are images.
        """
        check_target(target, state.hidden)
        embedded = self.embedding(target)
        hidden, context, attended = [], [], []
        for word in embedded.unbind(1):
            state = self.recurrent_step(word, state)
            hidden.append(state.hidden)
            context.append(state.context)
            attended.append(state.attended)
        logits = self.output(torch.stack(hidden, 1), embedded, torch.stack(context, 1))
        parts = (torch.stack(part, 1) for part in zip(*attended, strict=True))
        return logits, SampledAttention(*parts)

    def forward(
        self, target: Int[Tensor, "b t"], state: CaptionerState
    ) -> Float[Tensor, "b t vocabulary"]:
        """Scores of the word after each word of ``target``, which is given (teacher forcing)."""
        return self.trace(target, state)[0]


class HardCaptioner(Captioner):
    """The same with hard attention: the look falls on one place, drawn while training.

    Source: Xu et al. 2015, section 4.1. Its :meth:`~companion.models.show_attend_tell.Captioner.trace` has what
    :func:`~companion.training.reinforce.reinforce_loss` needs.

    Raises:
        ValueError: a size is below 1.
        TypeError: the attention is not a :class:`~companion.attention.hard.HardAttention`, or goes by the query's
            place.
    """

    attention_type = HardAttention

    def attend(
        self,
        query: Float[Tensor, "b 1 h"],
        memory: Memory,
        position: Int[Tensor, "b 1"],
    ) -> SampledAttention:
        """Attention to one sampled region."""
        return self.attention(query, memory.key, memory.mask[:, None], position)


def to_hard_attention(captioner: Captioner) -> HardCaptioner:
    """A copy that has learnt as much, but looks at one place: drawn by the weights that it averaged by.

    REINFORCE refines a look far better than it finds one, so it is a good place to start from. The copy is in
    training mode if the captioner is.

    Raises:
        TypeError: the captioner's attention is hard already.
    """
    source_size, hidden_size = captioner.W_h.in_features, captioner.W_h.out_features
    embedding_size = captioner.embedding.embedding_dim
    attention = HardAttention(deepcopy(captioner.attention))
    words = captioner.output.L_o.out_features
    hard = HardCaptioner(words, embedding_size, hidden_size, source_size, attention)
    hard = hard.to(captioner.W_h.weight)
    others = {
        name: x
        for name, x in captioner.state_dict().items()
        if not name.startswith("attention.")
    }
    hard.load_state_dict(others, strict=False)
    return hard.train(captioner.training)
