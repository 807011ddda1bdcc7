"""What nbval needs where warnings are errors."""


def pytest_configure(config):
    """Let nbval keep open the null device that it hands to each kernel."""
    config.addinivalue_line(
        "filterwarnings",
        "ignore:unclosed file <_io.TextIOWrapper name=.*null:ResourceWarning",
    )
