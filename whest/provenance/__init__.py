"""Where a run came from: the estimator's source, and the user's git repository."""
