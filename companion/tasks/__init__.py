"""The tasks of the chapters: data, training by one recipe, and a score each."""

from companion.tasks.caption_losses import (
    CaptionBatch,
    CaptionerTrace,
    HardAttentionLoss,
    SoftAttentionLoss,
    start_captions,
)
from companion.tasks.captioning import Captioning
from companion.tasks.cloze import Cloze, ClozeBatch, answer_loss
from companion.tasks.copying import BitsPerCharacter, Copying
from companion.tasks.digit_pretraining import (
    DetectionBatch,
    DetectionBatches,
    DigitDetector,
    detection_loss,
    digit_of_each_region,
    pretrain_encoder,
)
from companion.tasks.letter_copying import two_letters
from companion.tasks.number_translation import (
    LENGTH_RANGES,
    exact_match_by_length,
    exact_match_table,
    luong_general,
    narrow_transformer,
    short_numbers,
)
from companion.tasks.text_classification import (
    Classification,
    DocumentClassification,
    Example,
    accuracy,
    evaluate,
    predict,
    predict_logits,
)
from companion.tasks.translation import Search, Translation, TranslationTask, translate

__all__ = [
    "LENGTH_RANGES",
    "BitsPerCharacter",
    "CaptionBatch",
    "CaptionerTrace",
    "Captioning",
    "Classification",
    "Cloze",
    "ClozeBatch",
    "Copying",
    "DetectionBatch",
    "DetectionBatches",
    "DigitDetector",
    "DocumentClassification",
    "Example",
    "HardAttentionLoss",
    "Search",
    "SoftAttentionLoss",
    "Translation",
    "TranslationTask",
    "accuracy",
    "answer_loss",
    "detection_loss",
    "digit_of_each_region",
    "evaluate",
    "exact_match_by_length",
    "exact_match_table",
    "luong_general",
    "narrow_transformer",
    "predict",
    "predict_logits",
    "pretrain_encoder",
    "short_numbers",
    "start_captions",
    "translate",
    "two_letters",
]
