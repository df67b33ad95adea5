"""Datasets on disk: Parquet directories, .npz files, the hub; read, written, merged and combined."""
