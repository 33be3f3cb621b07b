"""Metrics of evaluated samples, with bootstrap intervals."""
