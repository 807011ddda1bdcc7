"""How nbval compares the notebooks of the book."""

import pytest


def pytest_configure(config):
    """Let nbval keep open the null device that it hands to each kernel."""
    config.addinivalue_line(
        "filterwarnings",
        "ignore:unclosed file <_io.TextIOWrapper name=.*null:ResourceWarning",
    )


@pytest.hookimpl
def pytest_collectstart(collector):
    """Compare neither progress bars, which notebooks do not store, nor vector graphics."""
    if collector.path.suffix == ".ipynb":
        collector.skip_compare += ("stderr", "image/svg+xml")
