"""Contests: sealed programs come in by a folder, and a signed board that anybody can verify goes out."""
