"""PVN: fly a quadcopter by language, with position-visitation prediction."""

__version__ = "0.1.0"
