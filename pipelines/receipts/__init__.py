"""Decisions -> receipt.json and matrix.csv."""
