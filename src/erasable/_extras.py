"""Optional packages: a refusal with the remedy, where one is missing."""

from erasable.errors import MissingExtraError


def require_diffusion() -> None:
    """Refuse early, and with the remedy, if the extra is not installed."""
    try:
        import diffusers  # noqa: F401 - asked whether it is there
    except ImportError as error:
        raise MissingExtraError(
            "Generation needs diffusers: pip install 'erasable[diffusion]'."
        ) from error
