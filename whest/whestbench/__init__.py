"""Import of WhestBench reports: read, check and log them as runs. In the code, "peer" means the whestbench package."""
