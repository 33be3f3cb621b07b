"""What a folder of experiments/ says, as typed values: layout, published numbers, claims."""
