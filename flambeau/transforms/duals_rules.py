"""How results of rows move that are neither linear nor pointwise, where a formula beats the rest."""
