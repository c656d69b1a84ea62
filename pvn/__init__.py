"""PVN: fly a quadcopter by language, with position-visitation prediction."""

from contextlib import suppress

__version__ = "0.2.0"

# Importing pvn is what makes gymnasium.make("pvn/Field-v0") work. Only names are registered here; the
# environment itself is imported when it is made, and training machines may lack Gymnasium.
with suppress(ImportError):
    from gymnasium.envs.registration import register

    register(
        id="pvn/Field-v0",
        entry_point="pvn.simulator.environment:FieldEnv",
        vector_entry_point="pvn.simulator.environment:FieldVectorEnv",
    )
