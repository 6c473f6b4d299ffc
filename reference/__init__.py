"""The references: torch.nn's modules on their slow path with weights copied both ways, and a NumPy oracle."""
