"""Command: train the model whose sentences a reader can take out, and write its weights for the page.

    python -m attention_course.live.sentences

It takes a quarter of a minute. The model is HN-ATT of chapter 9, trained as in its section 4. The weights are
written to ``book/_static/sentences/weights.js``, with the documents of the page, the accuracy, and how often
the class changes without a sentence.
"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from attention_course.data.vocabulary import pad_documents
from attention_course.live import weights
from attention_course.studies import document as study
from attention_course.tasks.text_classification import Classification, Example
from companion.models.hierarchical import HierarchicalAttention

SCRIPT = Path(__file__).resolve().parents[2] / "_static" / "sentences" / "weights.js"
STEPS, RATE = 400, 0.02  # of training, as in the chapter
#: Test documents on the page: short ones, in which a sentence of another type follows the answer.
DOCUMENTS = (80, 68, 14)
COMMENT = "The weights of HN-ATT, written by attention_course.live.sentences; tensors.js reads them."

Sentence = Sequence[str]


def task_and_test() -> tuple[Classification, list[Example]]:
    """The task of section 4, and its test documents."""
    training, validation, test, _ = study.splits(distance=4, sentences="long")
    return study.task_of("HN-ATT", training, validation), test


def substitute(task: Classification) -> Sentence:
    """The sentence that replaces another one: the first for validation without *optional*."""
    sentences = (s for example in task.test_examples for s in example.texts)
    return next(s for s in sentences if "optional" not in s)


def model_of(parameters: dict[str, Any], words: int) -> HierarchicalAttention:
    """The model with the weights of the script."""
    model: Any = study.build("HN-ATT", words)
    model.load_state_dict({name: weights.decode(x) for name, x in parameters.items()})
    return model.eval()


def classes(
    task: Classification,
    model: HierarchicalAttention,
    documents: Sequence[Sequence[Sentence]],
) -> list[int]:
    """The most probable class of each document."""
    encoded = [[task.words.encode(s) for s in document] for document in documents]
    with torch.no_grad():
        return model(pad_documents(encoded)).argmax(-1).tolist()


def without(
    task: Classification, model: HierarchicalAttention, test: Sequence[Example]
) -> dict[str, list[float]]:
    """How often the class changes if one sentence is removed, and if it is replaced.

    Returns:
        these two fractions for the sentence with the ``most`` weight, for the ``optional`` one, and for
        any ``other``.
    """
    changed: dict[str, list[list[bool]]] = defaultdict(list)
    for example in test:
        texts = list(example.texts)
        _, sentence_weights = model.attention_maps(*task.inputs([example]))
        most = sentence_weights[0].argmax().item()
        (whole,) = classes(task, model, [texts])
        for i, sentence in enumerate(texts):
            kind = "most" if i == most else "other"
            kind = "optional" if "optional" in sentence else kind
            variants = [
                [*texts[:i], *between, *texts[i + 1 :]]
                for between in ([], [substitute(task)])
            ]
            changed[kind].append([c != whole for c in classes(task, model, variants)])
    return {
        kind: [round(sum(each) / len(each), 4) for each in zip(*rows, strict=True)]
        for kind, rows in changed.items()
    }


def script(
    task: Classification, model: HierarchicalAttention, test: Sequence[Example]
) -> str:
    """The script that declares the model, its vocabulary, the documents, and what sentences matter."""
    written = {name: weights.encode(x) for name, x in model.state_dict().items()}
    rounded = model_of(written, len(task.words))
    content = {
        "words": task.words.tokens,
        "labels": task.labels,
        "documents": [test[number].texts for number in DOCUMENTS],
        "substitute": substitute(task),
        "testDocuments": len(test),
        "accuracy": round(study.accuracy_on(rounded, task, test), 4),
        "changed": without(task, rounded, test),
        "model": written,
    }
    return weights.script(COMMENT, "SENTENCES_MODEL", content)


def main() -> None:
    """Train, and write what the page needs."""
    torch.set_num_threads(1)  # or the weights depend on the machine
    task, test = task_and_test()
    model: Any = study.build("HN-ATT", len(task.words))
    task.train(model, STEPS, RATE)
    SCRIPT.write_text(script(task, model, test), "utf-8")


if __name__ == "__main__":
    main()
