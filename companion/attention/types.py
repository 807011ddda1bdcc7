"""Names for the types of two arguments that most mechanisms take."""

from jaxtyping import Bool, Int
from torch import Tensor

Mask = Bool[Tensor, "..."] | None  #: ``True`` = may attend, for all scores or some axes
Positions = Int[Tensor, "..."] | None  #: of the queries among the keys
