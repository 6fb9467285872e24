"""Rules -> verdicts -> decision."""
