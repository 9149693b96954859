"""Small tokenizers for the model files that contain theirs: a dry run counts tokens, it reads none.

Each splits text about as finely as a real one. The tensor's name says which kind is in a file.
"""

import base64
import io
import json
from collections.abc import Callable
from functools import lru_cache

LETTERS = "abcdefghijklmnopqrstuvwxyz,."
TEKKEN_SPECIAL = 1000  # ids before the vocabulary, as in the published ones


@lru_cache(maxsize=1)
def _sentencepiece() -> bytes:
    """Words as tokens; an encoder with a fixed length is filled up to it anyway."""
    import sentencepiece

    made = io.BytesIO()
    words = [letter * 3 + " " + letter for letter in LETTERS]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(words), model_writer=made, vocab_size=64, model_type="word",
        hard_vocab_limit=False, pad_id=0, eos_id=1, unk_id=2, bos_id=3, minloglevel=2)
    return made.getvalue()


def _tekken() -> bytes:
    """Pairs of letters: about twice as many tokens as a real one makes."""
    pairs = [(first + second).encode() for first in " " + LETTERS for second in LETTERS]
    tokens = [bytes([value]) for value in range(256)] + pairs
    special = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[IMG]", "[SYSTEM_PROMPT]",
               "[/SYSTEM_PROMPT]", *(f"<SPECIAL_{rank}>" for rank in range(8, 32))]
    return json.dumps({
        "config": {"default_num_special_tokens": TEKKEN_SPECIAL,
                   "default_vocab_size": TEKKEN_SPECIAL + len(tokens)},
        "vocab": [{"rank": rank, "token_bytes": base64.b64encode(token).decode()}
                  for rank, token in enumerate(tokens)],
        "special_tokens": [{"rank": rank, "token_str": text} for rank, text in enumerate(special)],
    }).encode()


def _tokenizers_json() -> bytes:
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({"<pad>": 0, "<unk>": 3}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return str(made.to_str()).encode()


TOKENIZERS: dict[str, Callable[[], bytes]] = {
    "spiece_model": _sentencepiece, "tekken_model": _tekken, "tokenizer_json": _tokenizers_json,
}
