"""A call out of the log, made again."""
