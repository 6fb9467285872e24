"""The thin Dagster layer: each asset calls one function of another room and says what came out."""
