"""The walls around a worker: namespaces, Landlock, seccomp, limits, and the trials that show that they stand.

Standard library alone, with relative imports alone: the launcher loads this folder before anything else of ours, in our
interpreter and in the interpreter of WhestBench.
"""
