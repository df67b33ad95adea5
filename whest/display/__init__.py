"""What people see of a run: console, progress, tables and pictures."""
