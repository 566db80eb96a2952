"""Dynamic modules, one family per file."""
