"""Boxes, coordinate frames, IoU, matching, and the label normalisation that decides what may match."""
