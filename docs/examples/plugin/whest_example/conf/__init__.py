"""The choices: one folder per group."""
