"""What tests share: harnesses, made-up data, hostile programs."""
