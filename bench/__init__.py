"""Benchmarks: ratios taken in one run. Nothing is asserted; the tables are for people."""
