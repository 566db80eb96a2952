"""Files, streams and snapshots of pipes."""
