"""Cohort x scenario -> lanes -> scenario matrix: the topologies as data and one vectorized evaluator."""
