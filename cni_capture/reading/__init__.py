"""From a log to its records: lines in both formats, files and rotated sets, a log that grows."""
