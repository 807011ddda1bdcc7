"""The tests, and what checks the types of the package's arguments while they run."""

from beartype import BeartypeConf, beartype

#: The checker for `--jaxtyping-packages`; a whole number is also a float, as it is for mypy.
check_types = beartype(conf=BeartypeConf(is_pep484_tower=True))
