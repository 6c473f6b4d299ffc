"""The speed of two environments, compared so that a busy machine raises no alarm and hides no slowdown."""
