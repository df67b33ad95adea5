"""The errors a person can mend: each message names the key, the value and the remedy."""


class WhestError(Exception):
    """Something the user can act on; shown without a traceback."""

    exit_code = 1


class ConfigError(WhestError):
    """The configuration is wrong: refused before any work starts."""

    exit_code = 2


class UnmeterableError(WhestError):
    """The program contains something whose cost can't be known, so it can't be scored."""


class UnprotectedError(ConfigError):
    """A protection that the config requires is not in force."""


class JobFailedError(WhestError):
    """A job that left its report but no valid score; raised so that a sweep counts it as failed."""
