"""The demo: the handmade model and torch's learn the same task side by side, from the same weights."""
