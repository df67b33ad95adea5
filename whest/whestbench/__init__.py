"""Reports of the `whestbench` package as runs of ours."""
