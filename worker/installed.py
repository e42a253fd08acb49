"""What is installed here, in which version."""

from importlib.metadata import PackageNotFoundError, version


def versions(*packages: str) -> dict[str, str]:
    """The versions of our own and other packages, where they are installed."""
    found: dict[str, str] = {}
    for name in ("sluicegate", *packages):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
