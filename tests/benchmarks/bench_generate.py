"""Greedy decoding with a KV cache, against ``generate`` of MarianMT in ``transformers``.

Both models have the same sizes and the same weights, and write the same tokens. Neither
may end a sentence early, so both take the same number of steps. On a GPU, where the
launches of kernels take the time, our compiled step is raced against their static cache
as well.
"""

import torch
import transformers
from measure import compare, setting
from torch import Tensor, nn
from transformers import MarianConfig, MarianMTModel

from attention_course.data.vocabulary import BOS, EOS, PAD
from companion.decoding import for_inference, greedy
from companion.layers.positional_encoding import sinusoids
from companion.models import Transformer, share_embeddings
from tests.tiny import MARKS

VOCABULARY, SOURCE, TOKENS = 8000, 20, 64
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
#: d_model, heads, d_ff, layers; the goals for a batch of 1 and of 8.
SIZES = {
    "3 layers of 256": ((256, 4, 1024, 3), {1: "at least 1.5", 8: "at least 1.5"}),
    "6 layers of 512": ((512, 8, 2048, 6), {1: "at least 1.2", 8: "at least 1.1"}),
}


def marian(ours: Transformer) -> MarianMTModel:
    """MarianMT with the weights of one of our models, whose embeddings are shared."""
    layer = ours.encoder.layers[0]
    layers, heads = len(ours.encoder.layers), layer.attention.heads
    d_ff = layer.feed_forward[0].out_features
    config = MarianConfig(
        vocab_size=VOCABULARY,
        d_model=layer.d_model,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=d_ff,
        decoder_ffn_dim=d_ff,
        activation_function="relu",
        scale_embedding=True,
        dropout=0.0,
        max_position_embeddings=SOURCE + TOKENS,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )
    theirs = MarianMTModel(config).eval()
    give(ours.decoder.embedding, theirs.model.shared)
    for part, other in [
        (ours.encoder, theirs.model.encoder),
        (ours.decoder, theirs.model.decoder),
    ]:
        positions = torch.arange(SOURCE + TOKENS)
        other.embed_positions.weight.data = sinusoids(positions, layer.d_model)
        for mine, its in zip(part.layers, other.layers, strict=True):
            give_layer(mine, its)
    return theirs


def give_layer(ours: nn.Module, theirs: nn.Module) -> None:
    pairs = [(ours.attention, theirs.self_attn)]
    norms = [(ours.attention_residual, theirs.self_attn_layer_norm)]
    if hasattr(ours, "source_attention"):
        pairs.append((ours.source_attention, theirs.encoder_attn))
        norms.append((ours.source_residual, theirs.encoder_attn_layer_norm))
    for attention, other in pairs:
        give(attention.W_Q, other.q_proj)
        give(attention.W_K, other.k_proj)
        give(attention.W_V, other.v_proj)
        give(attention.W_O, other.out_proj)
    norms.append((ours.feed_forward_residual, theirs.final_layer_norm))
    for residual, norm in norms:
        give(residual.norm, norm)
    give(ours.feed_forward[0], theirs.fc1)
    give(ours.feed_forward[2], theirs.fc2)


def give(ours: nn.Module, theirs: nn.Module) -> None:
    theirs.load_state_dict(ours.state_dict())


@torch.no_grad()
def race(name: str, sizes: tuple, batch: int, goal: str) -> None:
    torch.manual_seed(0)
    ours = Transformer(VOCABULARY, VOCABULARY, *sizes, dropout=0.0, pad=0).eval()
    share_embeddings(ours)
    theirs = marian(ours).to(DEVICE)
    for_inference(ours.to(DEVICE))
    source = torch.randint(EOS + 2, VOCABULARY, (batch, SOURCE)).to(DEVICE)
    forbidden = torch.tensor([PAD, EOS]).to(DEVICE)

    def step(token, state):
        found = ours.step(token, state)
        return found._replace(logits=found.logits.index_fill(-1, forbidden, -torch.inf))

    def with_ours(step=step) -> Tensor:
        return greedy(step, ours.start(source), TOKENS, **MARKS).tokens

    def with_marian(**cache) -> Tensor:
        written = theirs.generate(
            source,
            attention_mask=torch.ones_like(source),
            max_new_tokens=TOKENS,
            min_new_tokens=TOKENS,
            do_sample=False,
            num_beams=1,
            use_cache=True,
            suppress_tokens=[PAD],
            **cache,
        )
        return written[:, 1:]

    assert torch.equal(with_ours(), with_marian())
    title = f"{TOKENS} tokens, {name}, batch {batch}"
    compare(title, with_ours, with_marian, goal)
    if DEVICE == "cuda":
        compiled = torch.compile(step, dynamic=True)
        compare(
            f"{title}, compiled step against static cache",
            lambda: with_ours(compiled),
            lambda: with_marian(cache_implementation="static"),
            "none",
        )


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    print(f"{setting()}, transformers {transformers.__version__}")
    for name, (sizes, goals) in SIZES.items():
        for batch, goal in goals.items():
            race(name, sizes, batch, goal)


if __name__ == "__main__":
    main()
