"""The image `tiny-linux`: the smallest real Linux, for real hosts without an image of their own."""
