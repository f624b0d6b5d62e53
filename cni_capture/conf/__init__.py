"""Probes into the configuration of the runtimes and out again, safely."""
