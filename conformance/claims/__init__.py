"""What two documents say of the Transformer, claim by claim: each is executed, and each has its verdict."""
