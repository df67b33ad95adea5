"""Errors that the user can repair: each message names the key, the value and the remedy."""


class WhestError(Exception):
    """An error that the user can repair; shown without a traceback."""

    exit_code = 1


class ConfigError(WhestError, ValueError):
    """The config is wrong; it is refused before any work starts. A notebook may catch it as a ValueError."""

    exit_code = 2


class UnprotectedError(ConfigError):
    """A protection that the run requires is not in force here: a stranger's code was not started."""


class UnmeterableError(WhestError):
    """The program has an operation of unknown cost, so it can't be scored."""


class JobFailedError(WhestError):
    """A job has no valid score; raised so that a sweep counts it as failed."""
