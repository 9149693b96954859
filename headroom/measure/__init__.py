"""Measure what memory is in use; reports and a journal about it."""
