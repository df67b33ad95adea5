"""Whether a tracking server answers at all, asked before a run."""

from threading import Thread

PROBE_S = 2.0
"""How long a server may take to answer at all."""


def silence(uri: str) -> str | None:
    """Why a server gives no answer, in words; None if it answers in time, or if the address is no server's."""
    if not uri.startswith(("http://", "https://")):
        return None
    import urllib.error
    import urllib.request

    found = [f"did not answer within {PROBE_S:g} s"]

    def ask() -> None:
        try:
            with urllib.request.urlopen(f"{uri.rstrip('/')}/health", timeout=PROBE_S):
                found.append("")
        except urllib.error.HTTPError:
            found.append("")  # a refusal is an answer
        except (OSError, ValueError) as error:
            found.append(f"does not answer ({getattr(error, 'reason', error)})")

    asking = Thread(target=ask, daemon=True)  # looking up a name has no time limit of its own
    asking.start()
    asking.join(PROBE_S)
    return found[-1] or None
