"""The models of the papers, one file each."""

from companion.layers.recurrent import BahdanauEncoder
from companion.models.abcnn import (
    ABCNN1,
    ABCNN2,
    ABCNN3,
    BCNN,
    PairClassifier,
    SentenceStates,
    match_scores,
)
from companion.models.attention_readers import (
    AttentionMean,
    AttentionOverAttention,
    AttentionSum,
    Reader,
)
from companion.models.bahdanau import (
    BahdanauDecoder,
    BahdanauState,
    CurrentStateDecoder,
    LocationSensitiveDecoder,
    StateAndWordDecoder,
)
from companion.models.convs2s import (
    ConvS2S,
    ConvS2SDecoder,
    ConvS2SDecoderLayer,
    ConvS2SEncoder,
    ConvS2SState,
)
from companion.models.hierarchical import (
    HierarchicalAttention,
    HierarchicalEncoder,
    sentence_masks,
)
from companion.models.language_model import LanguageModel
from companion.models.llama import LlamaLayer
from companion.models.luong import (
    InputFeedingDecoder,
    LuongDecoder,
    LuongEncoder,
    LuongState,
)
from companion.models.seq2seq import (
    ChoDecoder,
    ChoEncoder,
    ChoState,
    EncoderDecoder,
    LSTMEncoder,
    LSTMState,
    SequenceDecoder,
    SutskeverDecoder,
    SutskeverEncoder,
)
from companion.models.show_attend_tell import (
    Captioner,
    CaptionerState,
    CaptionOutput,
    HardCaptioner,
    ImageEncoder,
    to_hard_attention,
)
from companion.models.text_classifier import (
    Classifier,
    GRUEncoder,
    PoolingFunction,
    SelfAttentionEncoder,
    WordEncoder,
)
from companion.models.transformer import (
    CausalTransformerLayer,
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
    TransformerLayerState,
    share_embeddings,
)

__all__ = [
    "ABCNN1",
    "ABCNN2",
    "ABCNN3",
    "BCNN",
    "AttentionMean",
    "AttentionOverAttention",
    "AttentionSum",
    "BahdanauDecoder",
    "BahdanauEncoder",
    "BahdanauState",
    "CaptionOutput",
    "Captioner",
    "CaptionerState",
    "CausalTransformerLayer",
    "ChoDecoder",
    "ChoEncoder",
    "ChoState",
    "Classifier",
    "ConvS2S",
    "ConvS2SDecoder",
    "ConvS2SDecoderLayer",
    "ConvS2SEncoder",
    "ConvS2SState",
    "CurrentStateDecoder",
    "EncoderDecoder",
    "GRUEncoder",
    "HardCaptioner",
    "HierarchicalAttention",
    "HierarchicalEncoder",
    "ImageEncoder",
    "InputFeedingDecoder",
    "LSTMEncoder",
    "LSTMState",
    "LanguageModel",
    "LlamaLayer",
    "LocationSensitiveDecoder",
    "LuongDecoder",
    "LuongEncoder",
    "LuongState",
    "PairClassifier",
    "PoolingFunction",
    "Reader",
    "SelfAttentionEncoder",
    "SentenceStates",
    "SequenceDecoder",
    "StateAndWordDecoder",
    "SutskeverDecoder",
    "SutskeverEncoder",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "TransformerLayerState",
    "WordEncoder",
    "match_scores",
    "sentence_masks",
    "share_embeddings",
    "to_hard_attention",
]
