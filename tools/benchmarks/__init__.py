"""Figures that anybody can repeat: `make bench`, or `python -m tools.benchmarks --only NAME`."""
