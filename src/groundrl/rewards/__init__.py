"""Reward terms, one a file, and the rubric that weighs them."""
