"""Chen et al. 2017, Reading Wikipedia to answer open-domain questions."""

from tests.reference.scalars import context, dot, linear, part, relu, softmax


def aligned_question(parameters, word, question):
    """f_align(p_i) = Σ_j a_ij E(q_j), a_ij ∝ exp(α(E(p_i)) · α(E(q_j)))   (section 3.2)"""
    dense = part(parameters, "W")
    images = [relu(linear(dense, vector)) for vector in (word, *question)]
    return context(softmax([dot(images[0], image) for image in images[1:]]), question)
