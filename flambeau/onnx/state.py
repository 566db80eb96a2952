"""What is going on: how many exports are under way."""

exporting = 0
