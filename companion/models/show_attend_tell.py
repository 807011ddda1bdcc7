"""Show, attend and tell (Xu et al. 2015): captions by attention to image regions."""

from copy import deepcopy
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from companion._checks import check_kind, check_positive, check_source, check_target
from companion.attention.base import Attention
from companion.attention.hard import HardAttention, SampledAttention, entropy
from companion.decoding.state import DecoderStep, Memory
from companion.layers.embedding import Embedding


class ImageEncoder(nn.Module):
    """A convolutional network from a 32 × 32 image to a vector for each of 64 regions.

    ::

        y = pool(ReLU(conv 3×3(x))),   z = pool(ReLU(conv 3×3(y)))
        a = [ReLU(conv 1×1(z)); row; column]

    The regions form a grid of 8 × 8, row by row. The receptive field of a region is its
    own 4 × 4 pixels and three more on each side, so attention to a region is attention
    to that part of the image. The last two of the ``size`` features are its row and
    column, because attention itself does not know positions. They run from −6 to 6:
    smaller values would hardly tell neighbouring regions apart.

    Args:
        size: features of an annotation, row and column included.

    Deviation: Xu et al. 2015 use a large network (VGG) trained on photographs, ours is
    small enough to train on a CPU in minutes.

    Example:
        >>> annotations, mask = ImageEncoder(16)(torch.rand(2, 1, 32, 32))
        >>> annotations.shape, mask.shape
        (torch.Size([2, 64, 16]), torch.Size([2, 64]))
    """

    def __init__(self, size: int = 64):
        super().__init__()
        check_positive(size=size)
        if size < 3:
            raise ValueError(
                f"size must be at least 3, because row and column take two features, not {size}"
            )
        features, narrow, wide = size - 2, 3 * size // 8, 3 * size // 2
        self.first = nn.Conv2d(1, narrow, 3, padding=1)
        self.second = nn.Conv2d(narrow, wide, 3, padding=1)
        self.third = nn.Conv2d(wide, features, 1)
        self.pool = nn.MaxPool2d(2)

    def forward(
        self, images: Float[Tensor, "b 1 32 32"]
    ) -> tuple[Float[Tensor, "b 64 s"], Bool[Tensor, "b 64"]]:
        """The annotations a_i of the regions, and a mask that is ``True`` everywhere."""
        hidden = self.pool(self.first(images).relu())
        hidden = self.pool(self.second(hidden).relu())
        features = self.third(hidden).relu()  # (b, size − 2, 8, 8)
        line = torch.linspace(-6, 6, 8, device=features.device, dtype=features.dtype)
        coordinates = torch.stack(torch.meshgrid(line, line, indexing="ij"))
        coordinates = coordinates.expand(features.shape[0], -1, -1, -1)  # (b, 2, 8, 8)
        annotations = torch.cat([features, coordinates], 1).flatten(2).mT
        return annotations, torch.ones_like(annotations[..., 0], dtype=torch.bool)


class CaptionerState(NamedTuple):
    """Between time steps: the LSTM's h and c, the image, last context and attention.

    Context and attention are zero before the first step.
    """

    hidden: Float[Tensor, "b h"]
    cell: Float[Tensor, "b h"]
    memory: Memory
    context: Float[Tensor, "b v"]
    attended: SampledAttention
    position: Int[Tensor, " b"]


class CaptionOutput(nn.Module):
    """The deep output layer: logits from the previous word, the state and the context.

    ::

        logits = L_o (E y + L_h h + L_z ẑ)

    Args:
        hidden_size, embedding_size, context_size: features of h, E y and ẑ.
        vocabulary_size: how many words there are.

    Source: Xu et al. 2015, equation (7).
    Deviation: L_o has a bias, as all output layers here.

    Example:
        >>> output = CaptionOutput(4, 3, 6, vocabulary_size=11)
        >>> output(torch.ones(2, 4), torch.ones(2, 3), torch.ones(2, 6)).shape
        torch.Size([2, 11])
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
        """Logits of the next word, for one time step or for all at once."""
        return self.L_o(embedded + self.L_h(hidden) + self.L_z(context))


class Captioner(nn.Module):
    """An LSTM decoder with soft attention over an image's regions, and a gated context.

    ::

        ā = mean of the annotations a_i
        h_0 = tanh(W_h ā + b_h),   c_0 = tanh(W_c ā + b_c)
        α_t = masked_softmax(f_att(h_{t−1}, a)),   β_t = σ(f_β(h_{t−1}))
        ẑ_t = β_t Σ_i α_ti a_i
        h_t, c_t = LSTM([y_{t−1}; ẑ_t], h_{t−1}, c_{t−1})
        p(y_t) = softmax(L_o (E y_{t−1} + L_h h_t + L_z ẑ_t))

    The gate β_t is a scalar, as in the paper: it scales the context as a whole.

    Args:
        vocabulary_size, embedding_size: the caption's words, and features of their
            vectors.
        hidden_size: features of h and c.
        source_size: features of an annotation a_i.
        attention: f_att, for queries of ``hidden_size`` features. In the paper it is
            :class:`~companion.attention.additive.Additive`; a Gumbel-softmax serves as
            well.

    Source: Xu et al. 2015, sections 3.1.2 and 4.2.1.
    Deviation: the paper applies dropout, ours does not: it is meant for small models.
    Deviation: PyTorch's LSTM adds two bias vectors, of which one would do.

    Example:
        >>> from companion.attention import Additive
        >>> captioner = Captioner(11, 3, 4, 6, Additive(4, 6, 5))
        >>> state = captioner.start(torch.rand(2, 64, 6), torch.ones(2, 64).bool())
        >>> logits, state, weights = captioner.step(torch.tensor([1, 1]), state)
        >>> logits.shape, weights.shape
        (torch.Size([2, 11]), torch.Size([2, 64]))
    """

    attention_type: type = Attention  #: the type of attention that it needs

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
        self.source_size = source_size
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
        """The state before the first word; the annotations are projected here, once."""
        check_source(annotations, mask, self.source_size)
        visible = mask[..., None].to(annotations.dtype)
        mean = (annotations * visible).sum(1) / visible.sum(1).clamp_min(1)
        key, value = self.attention.project(annotations)
        context = torch.zeros_like(annotations[:, 0])
        weights = torch.zeros_like(annotations[:, :, 0])
        zero = torch.zeros_like(context[:, 0])
        return CaptionerState(
            self.W_h(mean).tanh(),
            self.W_c(mean).tanh(),
            Memory(key, value, mask),
            context,
            SampledAttention(weights, log_prob=zero, entropy=zero),
            torch.zeros_like(mask[:, 0], dtype=torch.long),
        )

    def attend(
        self,
        query: Float[Tensor, "b 1 h"],
        memory: Memory,
        position: Int[Tensor, "b 1"],
    ) -> SampledAttention:
        """Soft attention to every region. Nothing is sampled, so ``log_prob`` is 0."""
        weights = self.attention.weights(
            query, memory.key, memory.query_mask, position
        )  # (b, 1, k)
        log_prob = torch.zeros_like(weights[..., 0])
        return SampledAttention(weights, log_prob, entropy(weights))

    def recurrent_step(
        self, embedded: Float[Tensor, "b e"], state: CaptionerState
    ) -> CaptionerState:
        """One time step: attend with h_{t−1}, then update with E y_{t−1} and ẑ_t."""
        attended = self.attend(
            state.hidden[:, None], state.memory, state.position[:, None]
        )
        attended = SampledAttention(*(part.squeeze(1) for part in attended))
        average = (attended.weights[:, None] @ state.memory.value).squeeze(1)  # (b, v)
        context = self.f_beta(state.hidden).sigmoid() * average  # ẑ_t
        hidden, cell = self.cell(
            torch.cat([embedded, context], -1), (state.hidden, state.cell)
        )
        return CaptionerState(
            hidden, cell, state.memory, context, attended, state.position + 1
        )

    def step(self, token: Int[Tensor, " b"], state: CaptionerState) -> DecoderStep:
        """Logits of the word after ``token``, the new state, the regions' weights."""
        embedded = self.embedding(token)
        state = self.recurrent_step(embedded, state)
        logits = self.output(state.hidden, embedded, state.context)
        return DecoderStep(logits, state, state.attended.weights)

    def trace(
        self, target: Int[Tensor, "b t"], state: CaptionerState
    ) -> tuple[Float[Tensor, "b t vocabulary"], SampledAttention]:
        """Logits and attention of every time step, by teacher forcing."""
        check_target(target, state.hidden)
        embedded = self.embedding(target)
        hidden, context, attended = [], [], []
        for word in embedded.unbind(1):
            state = self.recurrent_step(word, state)
            hidden.append(state.hidden)
            context.append(state.context)
            attended.append(state.attended)
        logits = self.output(torch.stack(hidden, 1), embedded, torch.stack(context, 1))
        steps = (torch.stack(part, 1) for part in zip(*attended, strict=True))
        return logits, SampledAttention(*steps)

    def forward(
        self, target: Int[Tensor, "b t"], state: CaptionerState
    ) -> Float[Tensor, "b t vocabulary"]:
        """Logits of the word after each word of the ground truth (teacher forcing)."""
        return self.trace(target, state)[0]


class HardCaptioner(Captioner):
    """A captioner with hard attention: in training it attends to one sampled region.

    At evaluation it attends to the most probable region. Its attention is a
    :class:`~companion.attention.hard.HardAttention`; :meth:`~Captioner.trace` returns
    what :func:`~companion.losses.reinforce.reinforce_loss` needs.

    Source: Xu et al. 2015, section 4.1.

    Example:
        >>> from companion.attention import Additive, HardAttention
        >>> captioner = HardCaptioner(11, 3, 4, 6, HardAttention(Additive(4, 6, 5)))
        >>> state = captioner.start(torch.rand(1, 64, 6), torch.ones(1, 64).bool())
        >>> logits, attended = captioner.trace(torch.tensor([[1, 7, 8]]), state)
        >>> attended.weights.sum(-1), attended.weights.max(-1).values
        (tensor([[1., 1., 1.]]), tensor([[1., 1., 1.]]))
    """

    attention_type = HardAttention

    def attend(
        self,
        query: Float[Tensor, "b 1 h"],
        memory: Memory,
        position: Int[Tensor, "b 1"],
    ) -> SampledAttention:
        """Attention to one sampled region."""
        return self.attention(query, memory.key, memory.query_mask, position)


def to_hard_attention(captioner: Captioner) -> HardCaptioner:
    """A copy of a captioner that samples from its attention weights.

    Soft attention is a good initialisation for hard attention, because REINFORCE
    refines a trained attention far better than it finds one from scratch.

    Args:
        captioner: a trained captioner with soft attention; it is not changed.

    Example:
        >>> from companion.attention import Additive
        >>> hard = to_hard_attention(Captioner(11, 3, 4, 6, Additive(4, 6, 5)))
        >>> type(hard).__name__, type(hard.attention).__name__
        ('HardCaptioner', 'HardAttention')
    """
    hard = HardCaptioner(
        captioner.output.L_o.out_features,
        captioner.embedding.embedding_dim,
        captioner.W_h.out_features,
        captioner.W_h.in_features,
        HardAttention(deepcopy(captioner.attention)),
    ).to(captioner.W_h.weight)
    others = captioner.state_dict()
    others = {k: v for k, v in others.items() if not k.startswith("attention.")}
    hard.load_state_dict(others, strict=False)
    return hard.train(captioner.training)
