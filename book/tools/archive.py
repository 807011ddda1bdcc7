"""Zip files whose bytes depend only on their content: no times, no permissions of this machine."""

import zipfile
from collections.abc import Iterable
from pathlib import Path

EPOCH = (1980, 1, 1, 0, 0, 0)
PLAIN_FILE = 0o100644 << 16
UNCOMPRESSED = "mimetype"  # the member that identifies an ePub


def write_archive(path: Path, members: Iterable[tuple[str, bytes]]) -> None:
    """Write the members, by name and in their order, into a zip file."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members:
            member = zipfile.ZipInfo(name, EPOCH)
            member.external_attr = PLAIN_FILE
            member.compress_type = (
                zipfile.ZIP_STORED if name == UNCOMPRESSED else zipfile.ZIP_DEFLATED
            )
            archive.writestr(member, content)
