"""The kinds of path that requests take: whole prompts, chunks, separated. A module and a function each (docs/arithmetic.md, section 5)."""
