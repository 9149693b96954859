"""Why something that was asked for is not done; each message is one sentence for who asked."""


class NotKnown(LookupError):
    """Nothing is known under this id."""


class Refused(RuntimeError):
    """It cannot be done, or not now."""
