"""The corpus generator, "meadow": phrase banks, manoeuvres, tours through a field, references and sentences."""
