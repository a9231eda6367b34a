"""Tests here run on simulated time."""

from tests.unit.simulated import anyio_backend

__all__ = ["anyio_backend"]
