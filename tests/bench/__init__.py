"""What things cost: whole processes, interleaved runs, medians, and ratios, which hold where milliseconds do not."""
