"""Selecting from rows: placeholder."""
