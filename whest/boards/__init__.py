"""Leaderboards: policies over runs as they were recorded. They read logged scores and never make any."""
