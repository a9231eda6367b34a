"""Image references: what of `registry:5000/team/app:1.2@sha256:...` is tag and what is digest.

Source: github.com/distribution/reference.
"""


def tag_of(image: str) -> str:
    """Return the tag; `latest` when neither tag nor digest is given, empty with a digest alone."""
    name, at, _ = image.partition("@")
    last = name.rpartition("/")[2]
    _, colon, tag = last.partition(":")
    if colon:
        return tag
    return "" if at else "latest"
