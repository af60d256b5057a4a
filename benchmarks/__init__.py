"""Speed, measured beside something that gives the figures a meaning: `python -m benchmarks`."""
