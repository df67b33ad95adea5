"""WhestBench, our peer: its estimators run here as they are, its reports become runs."""
