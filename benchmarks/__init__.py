"""Benchmarks; each figure is compared with a baseline."""
