"""An exam: train a byte learner from nothing under a budget, then answer questions it never saw."""
