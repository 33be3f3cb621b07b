"""Tables of experiments, made from frozen results and published numbers alone."""
