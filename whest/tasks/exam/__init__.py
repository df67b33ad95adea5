"""An exam: train a byte learner from random weights under a budget, then let it answer questions that it never saw."""
