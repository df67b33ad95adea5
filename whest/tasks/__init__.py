"""Tasks: one folder per task. This file imports nothing, because workers import it before they enter the sandbox."""
