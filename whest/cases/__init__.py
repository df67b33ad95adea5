"""Cases: the results that a task yields, as plain data for scoring rules and reports."""
