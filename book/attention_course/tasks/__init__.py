"""The tasks of the chapters: data, training by one recipe, and a score each."""

from attention_course.tasks.captioning import Captioning
from attention_course.tasks.cloze import Cloze, ClozeBatch, answer_loss
from attention_course.tasks.copying import BitsPerCharacter, Copying
from attention_course.tasks.digit_pretraining import (
    DetectionBatch,
    DetectionBatches,
    DigitDetector,
    detection_loss,
    digit_of_each_region,
    pretrain_encoder,
)
from attention_course.tasks.letter_copying import two_letters
from attention_course.tasks.number_translation import (
    LENGTH_RANGES,
    bahdanau_translator,
    exact_match_by_length,
    french_numbers,
    luong_general,
    narrow_transformer,
    short_numbers,
)
from attention_course.tasks.text_classification import (
    Classification,
    DocumentClassification,
    Example,
    accuracy,
    evaluate,
    predict,
    predict_logits,
)
from attention_course.tasks.translation import (
    Search,
    Translation,
    TranslationTask,
    translate,
)

__all__ = [
    "LENGTH_RANGES",
    "BitsPerCharacter",
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
    "Search",
    "Translation",
    "TranslationTask",
    "accuracy",
    "answer_loss",
    "bahdanau_translator",
    "detection_loss",
    "digit_of_each_region",
    "evaluate",
    "exact_match_by_length",
    "french_numbers",
    "luong_general",
    "narrow_transformer",
    "predict",
    "predict_logits",
    "pretrain_encoder",
    "short_numbers",
    "translate",
    "two_letters",
]
