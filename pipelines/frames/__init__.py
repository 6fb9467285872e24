"""Frames that cross rooms: pandera models with unit and meaning per column. Import the module that you need."""
