"""What a volume can refuse."""


class VolumeError(Exception):
    """A volume can't be made or taken away now; the text is that of a FailedMount event.

    Trying again helps when the node changes (a folder appears, a process lets go of a file).
    """


class ContentUnknown(VolumeError):
    """Nobody can say now what a volume's files should be: those that are there stay."""
