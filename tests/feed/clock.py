class Clock:
    """Shows `now`, in seconds, for ever."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now
