"""From a completion's text to an `Answer`: tags, fences, JSON, boxes."""
