"""The Transformer against PyTorch's: a training step, cached decoding, and heads in one operation.

PyTorch's ``nn.Transformer`` gets the same embeddings, positions and output. It also drops
attention weights and hidden units, so the step is measured without dropout as well.
"""

import copy

import torch
from measure import compare, report, seconds, setting
from torch import Tensor, nn

from attention_course.data.batching import Batch
from attention_course.data.vocabulary import BOS, EOS, PAD
from attention_course.training import sequence_loss
from companion.attention import MultiHeadAttention
from companion.attention.masks import causal, dense
from companion.decoding import greedy
from companion.models import (
    Transformer,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from tests.tiny import MARKS

WORDS, SENTENCES, LENGTH, TOKENS = 8000, 32, 32, 256
SIZES = {
    "256 features, 3 layers": (256, 8, 512, 3),
    "the paper's base": (512, 8, 2048, 6),
}
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class PyTorchs(nn.Module):
    """``nn.Transformer`` with the weights, embeddings and output of one of ours."""

    def __init__(self, ours: Transformer, dropout: float):
        super().__init__()
        self.encoder, self.decoder = (
            copy.deepcopy(ours.encoder),
            copy.deepcopy(ours.decoder),
        )
        layer, layers = ours.encoder.layers[0], len(ours.encoder.layers)
        sizes = (
            layer.d_model,
            layer.attention.heads,
            layers,
            layers,
            layer.feed_forward[0].out_features,
        )
        self.transformer = nn.Transformer(*sizes, dropout, batch_first=True)
        self.transformer.encoder.use_nested_tensor = (
            False  # which warns that it may change
        )
        self.transformer.encoder.norm = self.transformer.decoder.norm = (
            None  # the paper has none
        )
        for part, stack in [(self.encoder, "encoder"), (self.decoder, "decoder")]:
            for theirs, layer in zip(
                getattr(self.transformer, stack).layers, part.layers, strict=True
            ):
                give_weights(layer, theirs)
            del part.layers
        self.to(DEVICE)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.decoder.output(self.states(target, *self.read(source)))

    def read(self, source: Tensor) -> tuple[Tensor, Tensor]:
        padding = source == PAD
        x = self.encoder.dropout(self.encoder.position(self.encoder.embedding(source)))
        return self.transformer.encoder(x, src_key_padding_mask=padding), padding

    def states(self, target: Tensor, states: Tensor, padding: Tensor) -> Tensor:
        x = self.decoder.dropout(self.decoder.position(self.decoder.embedding(target)))
        future = ~dense(causal(), target.shape[1], device=target.device)
        return self.transformer.decoder(
            x,
            states,
            tgt_mask=future,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )


def give_weights(
    ours: TransformerEncoderLayer | TransformerDecoderLayer, theirs: nn.Module
) -> None:
    """Give PyTorch's layer the modules of one of ours, which is not used again."""
    dropout = theirs.self_attn.dropout
    theirs.self_attn = ours.attention.to_torch()
    theirs.linear1, _, theirs.linear2 = ours.feed_forward
    theirs.norm1, theirs.norm2 = (
        ours.attention_residual.norm,
        ours.feed_forward_residual.norm,
    )
    theirs.self_attn.dropout = dropout
    if isinstance(ours, TransformerDecoderLayer):
        theirs.multihead_attn = ours.source_attention.to_torch()
        theirs.multihead_attn.dropout = dropout
        theirs.norm2, theirs.norm3 = (
            ours.source_residual.norm,
            ours.feed_forward_residual.norm,
        )


def both(sizes: tuple, dropout: float) -> tuple[Transformer, PyTorchs]:
    torch.manual_seed(0)
    ours = Transformer(WORDS, WORDS, *sizes, dropout=dropout, pad=0).to(DEVICE)
    return ours, PyTorchs(ours, dropout)


def sentences(least: int) -> Tensor:
    """A batch of sentences of ``least`` tokens up to the full length, padded."""
    tokens = torch.randint(EOS + 2, WORDS, (SENTENCES, LENGTH), device=DEVICE)
    lengths = torch.linspace(least, LENGTH, SENTENCES, device=DEVICE).long()
    return tokens.masked_fill(
        torch.arange(LENGTH, device=DEVICE) >= lengths[:, None], PAD
    )


class Training:
    """Steps of Adam on one batch."""

    def __init__(self, model: nn.Module, batch: Batch):
        self.model, self.batch = model.train(), batch
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)

    def __call__(self):
        self.optimizer.zero_grad()
        loss = sequence_loss(self.model, self.batch)
        (loss.total / loss.count).backward()
        self.optimizer.step()


def train(name: str, sizes: tuple, dropout: float, rounds: int) -> None:
    ours, other = both(sizes, dropout)
    batch = Batch(sentences(LENGTH // 2), sentences(LENGTH // 2))
    if not dropout:
        found, expected = ours(*batch), other(*batch)
        torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)
    steps = Training(ours, batch), Training(other, batch)
    compare(f"a training step, {name}, dropout {dropout}", *steps, "at least 1", rounds)


@torch.no_grad()
def decode(sentences_at_once: int) -> None:
    """Greedy search without <eos>: with a KV cache, or with all tokens computed at every step."""
    name, sizes = next(iter(SIZES.items()))
    ours, other = (model.eval() for model in both(sizes, 0.0))
    source = sentences(LENGTH)[:sentences_at_once]
    forbidden = torch.tensor([PAD, EOS], device=DEVICE)

    def step(token, state):
        found = ours.step(token, state)
        return found._replace(logits=found.logits.index_fill(-1, forbidden, -torch.inf))

    def with_cache():
        return greedy(step, ours.start(source), TOKENS, **MARKS).tokens

    def without_cache():
        read, target = other.read(source), torch.full_like(source[:, :1], BOS)
        for _ in range(TOKENS):
            logits = other.decoder.output(other.states(target, *read)[:, -1])
            following = logits.index_fill(-1, forbidden, -torch.inf).argmax(-1)
            target = torch.cat([target, following[:, None]], 1)
        return target[:, 1:]

    assert torch.equal(with_cache(), without_cache())
    what = f"greedy decoding of {TOKENS} tokens, {name}, {sentences_at_once} at once"
    times = [(seconds(with_cache), seconds(without_cache)) for _ in range(3)]
    report(what, *map(list, zip(*times, strict=True)), "s", "at least 10")


def parts(linear: nn.Linear, count: int) -> list[nn.Linear]:
    """The same as several layers, each with its part of the outputs."""
    found = []
    for weight, bias in zip(
        linear.weight.chunk(count), linear.bias.chunk(count), strict=True
    ):
        found.append(nn.Linear(weight.shape[1], weight.shape[0]).to(weight))
        found[-1].load_state_dict({"weight": weight, "bias": bias})
    return found


def heads(size: int, batch: int, length: int, count: int = 8) -> None:
    """All heads in one operation, against a loop over heads with their parts of the weights.

    Both do the same arithmetic. One operation saves calls, which matter for small matrices.
    """
    torch.manual_seed(0)
    together = MultiHeadAttention(size, count).to(DEVICE)
    x = torch.randn(batch, length, size, device=DEVICE)
    inputs = [
        parts(linear, count) for linear in (together.W_Q, together.W_K, together.W_V)
    ]
    output = copy.deepcopy(together.W_O)

    def one_operation():
        return together(x, *together.project(x))

    def loop():
        found = []
        for query, key, value in zip(*inputs, strict=True):
            found.append(together.attention(query(x), key(x), value(x)))
        return output(torch.cat(found, -1))

    torch.testing.assert_close(one_operation(), loop(), atol=1e-5, rtol=1e-4)
    goal = "at least 2" if size < 512 else "above 1"
    name = f"{count} heads of {size // count} features, {batch} × {length} words"
    with torch.no_grad():
        compare(f"{name}, forward", one_operation, loop, goal, rounds=15)
    compare(
        f"{name}, forward and backward",
        lambda: one_operation().sum().backward(),
        lambda: loop().sum().backward(),
        goal,
        rounds=15,
    )


def main():
    print(setting())
    print(
        f"{SENTENCES} sentences of {LENGTH // 2} to {LENGTH} words; the other is PyTorch's nn.Transformer"
    )
    for (name, sizes), rounds in zip(SIZES.items(), (9, 3), strict=True):
        for dropout in (0.1, 0.0):
            train(name, sizes, dropout, rounds)
    for sentences_at_once in (1, 8):
        decode(sentences_at_once)
    print("the other is a loop over the heads")
    for size in (64, 512):
        for batch, length in [(1, 1), (1, 8), (1, 32), (1, 128), (1, 512), (8, 32)]:
            heads(size, batch, length)


if __name__ == "__main__":
    main()
