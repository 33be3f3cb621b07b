"""Claims against results: paired tests over seeds, corrected over an experiment, with a verdict each."""
