"""See what a CNI plugin got and returned."""

__version__ = "0.1.0"
