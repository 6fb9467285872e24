"""The kinds of path that requests take: whole prompts, chunks, separated. One module and one function each (docs/arithmetic.md, section 5)."""
