class Half(
def fine(a):
    """Still found."""
    return call_it(a)
