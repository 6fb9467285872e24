"""Decoders that attend to something beside the text: an encoder's positions, or an image's."""

from pipelines.declarations.model_configs.attention import heads, over
from pipelines.declarations.model_configs.config import HEADS, HIDDEN, LAYERS, Config, Count
from pipelines.declarations.model_configs.kept import OF_ENCODER, Heads, Layers, full, keeping
from pipelines.declarations.model_configs.windows import every, pattern, split, window_of


def _with_cross(config: Config, own: Layers, layers: Count, same: Heads, tokens: Count | None = None) -> Layers:
    cross = keeping(config, "cross", layers, same.count, same.key, same.value, OF_ENCODER, tokens)
    return Layers.of(*own.parts, cross, *own.without, *own.notes)


def t5(config: Config) -> Layers:
    """``num_decoder_layers`` layers, or as many as the encoder has; ``d_kv`` is the head dimension (T5Config, T5Attention)."""
    layers = config.layers("num_decoder_layers" if config.has("num_decoder_layers") else LAYERS[-1])
    queries = config.get(*HEADS, what="the number of attention heads")
    size = config.get("d_kv", what="the head dimension")
    same = Heads(Count(queries.value, f"{queries.read_from}, each with its own key and value"), size, size)
    return _with_cross(config, Layers.of(full(config, layers, same)), layers, same)


def bart(config: Config) -> Layers:
    """``decoder_layers`` layers of ``decoder_attention_heads`` heads over ``d_model`` (BartDecoderLayer and its kin)."""
    return _bart(config, None)


def whisper(config: Config) -> Layers:
    """As BART; the encoder always has ``max_source_positions`` positions (WhisperConfig: audio is padded to 30 s)."""
    tokens = config.get("max_source_positions", what="the positions of the encoder")
    return _bart(config, tokens)


def _bart(config: Config, tokens: Count | None) -> Layers:
    layers = config.layers("decoder_layers")
    queries = config.get("decoder_attention_heads", what="the attention heads of the decoder")
    size = over(config, config.get(HIDDEN[2], HIDDEN[0], what="the hidden size"), queries, HIDDEN[2:3])
    same = Heads(Count(queries.value, f"{queries.read_from}, each with its own key and value"), size, size)
    return _with_cross(config, Layers.of(full(config, layers, same)), layers, same, tokens)


def t5gemma(config: Config) -> Layers:
    """The decoder alternates as Gemma 2 does; each of its layers also attends to the encoder (T5GemmaDecoderLayer)."""
    decoder = config.section("decoder")
    layers, same = decoder.layers(), heads(decoder)
    tokens = window_of(decoder)
    if tokens is None:
        own = Layers.of(full(decoder, layers, same))
    else:
        own = split(decoder, layers, pattern(decoder, layers, every(2)), same, same, tokens)
    return _with_cross(decoder, own, layers, same)


def mllama(config: Config) -> Layers:
    """The layers of ``cross_attention_layers`` keep an image's keys and values, not those of the text (MllamaTextConfig)."""
    layers = config.layers()
    if config.part.get("cross_attention_layers") is None:
        config.missing("cross_attention_layers", "the layers that attend to the image")
    cross = len(config.positions("cross_attention_layers", layers))
    own = Count(layers.value - cross, f"{layers.read_from} less cross_attention_layers: {cross}")
    same = heads(config)
    seen = Count(cross, f"cross_attention_layers: {cross} of {layers.value}")
    read = Layers.of(full(config, own if own.value else None, same))
    if not cross:
        return read
    tokens = image_positions(config)
    note = "image layers keep nothing for a request without an image; tokens is one image of the most tiles"
    if tokens is None:
        note = "positions of an image cannot be told from this file; those of the prompt are assumed"
    return _with_cross(config, read, seen, same, tokens).with_notes([note])


def image_positions(config: Config) -> Count | None:
    """Tiles x (patches of a tile + 1) of ``vision_config`` (calc_token_per_chunk of mllama in vLLM): 4 x (32 x 32 + 1) = 4,100."""
    vision = config.beside("vision_config")
    if vision is None:
        return None
    tile, patch, tiles = (vision.find(name) for name in ("image_size", "patch_size", "max_num_tiles"))
    if tile is None or patch is None or tiles is None:
        return None
    positions = tiles.value * ((tile.value // patch.value) ** 2 + 1)
    return Count(positions, f"{tiles.read_from} x (({tile.read_from} over {patch.read_from}) squared + 1)")
