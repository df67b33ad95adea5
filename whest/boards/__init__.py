"""Leaderboards: policies that rank recorded runs. They read logged scores and never compute any."""
