"""Cohort and rules -> which scenarios are looked at and kept, and what would change the decision."""
