"""The small tasks of the chapters: data, training by one recipe, and a score."""

from companion.tasks.caption_losses import (
    CaptionBatch,
    CaptionerTrace,
    HardLoss,
    SoftLoss,
    start,
)
from companion.tasks.captioning import Captioning
from companion.tasks.cloze import Cloze, ClozeBatch, answer_loss
from companion.tasks.copying import Bits, Copying
from companion.tasks.digit_pretraining import (
    DetectionBatch,
    DetectionBatches,
    DigitDetector,
    detection_loss,
    digit_of_each_region,
    pretrain,
)
from companion.tasks.number_translation import (
    LENGTHS,
    exact_match_by_length,
    exact_match_table,
    luong_general,
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
from companion.tasks.translation import Search, Task, Translation, translate

__all__ = [
    "LENGTHS",
    "Bits",
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
    "HardLoss",
    "Search",
    "SoftLoss",
    "Task",
    "Translation",
    "accuracy",
    "answer_loss",
    "detection_loss",
    "digit_of_each_region",
    "evaluate",
    "exact_match_by_length",
    "exact_match_table",
    "luong_general",
    "predict",
    "predict_logits",
    "pretrain",
    "short_numbers",
    "start",
    "translate",
]
