"""Datasets on disk: read, write, merge and combine Parquet directories and .npz files."""
