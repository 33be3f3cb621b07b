"""One file a model family."""
