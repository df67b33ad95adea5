"""The command line: one file per command, found through the table in `jobs`."""
