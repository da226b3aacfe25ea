"""Boats and the tolls that they pay."""


def toll(length, cargo=0):
    """The toll in pence: two for each metre, five for each ton."""
    if length <= 0:
        raise ValueError(f"a boat of {length} m is no boat")
    return 2 * length + 5 * cargo
