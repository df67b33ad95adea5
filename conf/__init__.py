"""Every choice of whest. A wheel has this folder as the package `whest.conf`."""
