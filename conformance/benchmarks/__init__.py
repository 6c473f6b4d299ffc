"""Benchmarks: never part of the gate, and never run in parallel."""
