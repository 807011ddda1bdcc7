"""Zip files that depend on nothing but what is in them."""

import zipfile
from collections.abc import Iterable
from pathlib import Path

EPOCH = (1980, 1, 1, 0, 0, 0)
PLAIN_FILE = 0o100644 << 16
AS_IT_IS = "mimetype"  # by which an ePub is known, so long as it is not compressed


def write_archive(path: Path, members: Iterable[tuple[str, bytes]]) -> None:
    """Write the members, by name and in their order, into a zip file."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members:
            member = zipfile.ZipInfo(name, EPOCH)
            member.external_attr = PLAIN_FILE
            member.compress_type = (
                zipfile.ZIP_STORED if name == AS_IT_IS else zipfile.ZIP_DEFLATED
            )
            archive.writestr(member, content)
