"""The independent verifier: recomputes a receipt from its exported files, with the standard library alone."""

from .command import main
from .findings import Disagreement, Verification
from .reading import Unreadable
from .rendering import render_json, render_text
from .verifying import verify

__all__ = ["Disagreement", "Unreadable", "Verification", "main", "render_json", "render_text", "verify"]
