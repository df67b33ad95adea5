"""From a composed config to typed values; every value is checked before any work starts."""
