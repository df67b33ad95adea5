"""Where an estimator runs. Empty on purpose: workers import it before their sandbox stands."""
