"""Figures that anybody can repeat: `make bench`, or `python -m tests.benchmarks --only NAME`."""
