"""Searches for one sentence, without batches."""

from itertools import product

from tests.reference import wu_2016

EOS = 2


def all_sentences(vocabulary, max_length):
    """Every sequence that ends with ``<eos>``, and every one of ``max_length`` tokens that does not."""
    other_tokens = [token for token in range(vocabulary) if token != EOS]
    for length in range(1, max_length + 1):
        for prefix in product(other_tokens, repeat=length - 1):
            yield (*prefix, EOS)
    yield from product(other_tokens, repeat=max_length)


def exhaustive(log_prob, vocabulary, max_length, penalty=0.0):
    """Every sequence Y with log p(Y), in descending order of log p(Y) / lp(Y)."""
    scored = [
        (sentence, log_prob(sentence))
        for sentence in all_sentences(vocabulary, max_length)
    ]
    return sorted(
        scored,
        key=lambda pair: -pair[1] / wu_2016.length_penalty(len(pair[0]), penalty),
    )


def beam(next_log_probs, max_length, width, penalty=0.0):
    """Beam search over one sentence, without batches, back pointers or an early end.

    ``next_log_probs(prefix)`` are log p(y | prefix). At each step the ``width`` best extensions
    are considered: those that end are finished. The ``width`` best that do not end are kept.
    """
    live, finished = [((), 0.0)], []
    for _ in range(max_length):
        candidates = [
            ((*prefix, token), total + more)
            for prefix, total in live
            for token, more in enumerate(next_log_probs(prefix))
        ]
        candidates.sort(key=lambda pair: -pair[1])
        finished += [pair for pair in candidates[:width] if pair[0][-1] == EOS]
        live = [pair for pair in candidates if pair[0][-1] != EOS][:width]
    finished += live
    finished.sort(
        key=lambda pair: -pair[1] / wu_2016.length_penalty(len(pair[0]), penalty)
    )
    return finished[:width]
