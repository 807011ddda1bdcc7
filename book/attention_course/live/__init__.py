"""What the figures that compute in the page need: commands that train their models and write the weights."""
