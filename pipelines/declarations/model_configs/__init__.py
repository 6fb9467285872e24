"""The shape of a model's KV cache, read from its config.json.

To add a family: a line in ``families.py`` where an existing reader fits, with the defaults of its class in ``defaults.py``; else a
function from :class:`~pipelines.declarations.model_configs.config.Config` to
:class:`~pipelines.declarations.model_configs.kept.Layers` beside its kin, and a line that registers it.
"""

from pipelines.declarations.model_configs.config import BY_HAND
from pipelines.declarations.model_configs.reader import read_model_cache

__all__ = ["BY_HAND", "read_model_cache"]
