"""A Sphinx extension for what the theme does not do by itself: no Colab button without an address."""

from stamp import COLAB


def add_colab(app, config):
    """Draw the button only when it has somewhere to point: without one the theme fails, or names a stranger."""
    if config.html_theme_options.get("repository_url"):
        config.html_theme_options["launch_buttons"] = {"colab_url": COLAB}


def setup(app):
    app.connect("config-inited", add_colab)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
