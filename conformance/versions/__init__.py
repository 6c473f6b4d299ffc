"""What is known of torch's versions."""
