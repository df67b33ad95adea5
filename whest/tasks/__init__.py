"""Tasks: one folder per task. Empty on purpose: workers import it before their sandbox stands."""
