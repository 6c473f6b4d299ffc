"""The conformance suite: the specification of torch.nn's Transformer in clauses, and the means to check them."""
