"""Each paper's equations as scalar loops over Python floats: slow, plain, and the oracle of the tests.

A vector is a list of floats, a matrix a list of rows, and a model's parameters are a
dictionary from the names of its ``state_dict`` to such lists. Nothing here imports
``companion`` or ``torch``. One file a paper; later papers import earlier ones.
"""
