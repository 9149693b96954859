"""Image sizes: read from text, sorted, and the work that goes with them."""
