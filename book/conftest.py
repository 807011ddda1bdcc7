"""What nbval needs: warnings are errors, and plots differ from processor to processor."""

from pathlib import Path


def pytest_configure(config):
    """Let nbval keep open the null device that it hands to each kernel, and compare no plots."""
    config.addinivalue_line(
        "filterwarnings",
        "ignore:unclosed file <_io.TextIOWrapper name=.*null:ResourceWarning",
    )
    config.option.nbval_sanitize_with = str(Path(__file__).with_name("nbval.cfg"))
