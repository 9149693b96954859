"""Encode to CPU with doubles for the encoder: what is encoded, kept, released and reported."""

import pytest
from support.models import Encoder

from headroom.encode import turn as encode_turn
from headroom.encode.cache_key import EmbeddingLookup
from headroom.encode.disk_cache import EmbeddingCache
from headroom.encode.encode import encode_to_cpu, split_prompts


@pytest.fixture
def lookup(tmp_path):
    return EmbeddingLookup(EmbeddingCache(tmp_path), "encoder 1")


def again(lookup):
    return EmbeddingLookup(lookup.cache, lookup.encoder)


def numbers(encoded):
    return [float(item[0][0][0]) for item in encoded.conditionings]


def step(encoded, start):
    return next(text for text in encoded.report.steps if text.startswith(start))


def test_one_prompt_is_taken_as_it_is_even_when_empty():
    assert split_prompts(" a\nb ", "one prompt") == [" a\nb "]
    assert split_prompts("", "one prompt") == [""]


def test_one_prompt_per_line_drops_blank_lines():
    assert split_prompts("a\r\n\n  \n b \n", "one prompt per line") == ["a", "b"]


def test_nothing_but_blank_lines_is_a_clear_error():
    with pytest.raises(ValueError, match="every line of the input `text` is blank"):
        split_prompts(" \n\n", "one prompt per line")


def test_each_prompt_gets_its_conditioning_in_memory_of_its_own_in_order():
    encoder = Encoder()
    encoded = encode_to_cpu(encoder, ["ccc", "a", "ccc", "bb"])
    assert numbers(encoded) == [3, 1, 3, 2] and encoded.prompts == ["ccc", "a", "ccc", "bb"]
    assert encoder.asked == ["ccc", "a", "bb"]
    cond, extra = encoded.conditionings[0][0]
    for tensor in (cond, extra["pooled_output"]):
        assert tensor.untyped_storage().nbytes() == tensor.numel() * 4
        assert not tensor.untyped_storage().resizable() and not tensor.is_inference()


def test_the_report_admits_that_conditioning_was_on_the_cpu_already():
    text = step(encode_to_cpu(Encoder(), ["a"]), "encoding")
    assert "0.0 MiB moved" in text and "ComfyUI keeps conditioning there by default" in text


def test_a_missing_encoder_names_the_connection():
    with pytest.raises(ValueError, match="input `clip`"):
        encode_to_cpu(None, ["a"])


def test_a_second_run_reads_everything_and_needs_no_encoder(lookup):
    first = encode_to_cpu(Encoder(), ["a", "bb"], lookup=lookup)
    second_lookup = again(lookup)
    assert second_lookup.has_all(["bb", "a"])
    second = encode_to_cpu(None, ["a", "bb"], lookup=second_lookup)
    assert numbers(second) == numbers(first)
    assert step(second, "disk cache") == "disk cache: 2 of 2 prompts read"
    assert "its loader did not run" in step(second, "encoder")
    second_lookup.cache.limit_bytes = 0
    encode_to_cpu(None, ["a"], lookup=second_lookup)
    assert not list(lookup.cache.folder.iterdir())


def test_an_embedding_that_cannot_be_stored_is_encoded_and_the_reason_given(lookup):
    encoder = Encoder({"hooks": object()})
    encoded = encode_to_cpu(encoder, ["a", "bb"], lookup=lookup)
    assert numbers(encoded) == [1, 2]
    assert "not kept, because value[0][1]['hooks'] is a object" in step(encoded, "disk cache")
    assert sum("left as it is" in text for text in encoded.report.steps) == 1
    assert not lookup.cache.folder.exists() or not list(lookup.cache.folder.iterdir())


def test_an_encoder_without_identity_is_used_and_the_reason_given(tmp_path):
    lookup = EmbeddingLookup(EmbeddingCache(tmp_path), "", "node 3 (Foo) is strange")
    assert not lookup.has_all(["a"])
    encoded = encode_to_cpu(Encoder(), ["a"], lookup=lookup)
    assert step(encoded, "disk cache").endswith("not used, because node 3 (Foo) is strange")
    assert list(tmp_path.iterdir()) == []


def test_a_stale_model_is_read_around_but_never_written(lookup):
    encode_to_cpu(Encoder(), ["a"], lookup=lookup)
    stale = EmbeddingLookup(lookup.cache, lookup.encoder, None, "x.safetensors changed")
    encoded = encode_to_cpu(Encoder(), ["a", "bb"], lookup=stale)
    assert "1 encoded but not kept, because x.safetensors changed" in step(encoded, "disk cache")
    assert not again(lookup).has_all(["bb"])


def test_a_full_disk_does_not_stop_the_encoding(lookup, monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(EmbeddingCache, "put", refuse)
    encoded = encode_to_cpu(Encoder(), ["a", "bb"], lookup=lookup)
    assert numbers(encoded) == [1, 2]
    assert "the disk refused: No space left" in step(encoded, "disk cache")


def test_an_interrupt_keeps_what_was_encoded_before(lookup):
    class Interrupt(BaseException):
        pass

    encoder = Encoder()
    plain = encoder.encode_from_tokens_scheduled

    def stops(tokens):
        if tokens == list("bb"):
            raise Interrupt
        return plain(tokens)

    encoder.encode_from_tokens_scheduled = stops
    with pytest.raises(Interrupt):
        encode_to_cpu(encoder, ["a", "bb", "ccc"], lookup=lookup)
    assert again(lookup).has_all(["a"]) and not again(lookup).has_all(["ccc"])


class Turn:
    """ComfyUI's side of a turn: which node runs, and whether the cache knows the encoder."""

    def __init__(self, monkeypatch, lookup):
        self.place = ("prompt 1", "7", 0)
        self.looked_up = 0
        self.lookup = lookup
        monkeypatch.setattr(encode_turn, "_place", lambda: self.place)
        monkeypatch.setattr(encode_turn, "look_up", self.look_up)

    def look_up(self, graph, node_id):
        self.looked_up += 1
        return again(self.lookup)

    def at(self, index, prompt_id="prompt 1"):
        self.place = (prompt_id, "7", index)


@pytest.fixture
def host(monkeypatch, lookup):
    return Turn(monkeypatch, lookup)


def test_without_the_cache_the_encoder_is_always_wanted(host):
    assert encode_turn.wanted_inputs({}, None, ["a"], "off") == ["clip"]
    assert encode_turn.wanted_inputs({}, Encoder(), ["a"], "off") == []
    assert host.looked_up == 0


def test_a_hit_survives_the_removal_of_its_file_before_the_run(host, lookup):
    encode_to_cpu(Encoder(), ["a"], lookup=lookup)
    assert encode_turn.wanted_inputs({}, None, ["a"], "disk") == []
    for path in lookup.cache.folder.iterdir():
        path.unlink()
    assert numbers(encode_turn.run({}, None, ["a"], True, "disk")) == [1]
    assert host.looked_up == 1


def test_the_encoder_is_released_after_the_last_text_of_a_list_only(host):
    encoder = Encoder()
    for index in range(3):
        host.at(index)
        encode_turn.wanted_inputs({}, encoder, ["a"], "off")
    released = []
    for index in range(3):
        host.at(index)
        encoded = encode_turn.run({}, encoder, [f"text {index}"], True, "off")
        released.append(encoded.report.steps[-1:] != (
            "encoder: left loaded for the next text of the list",))
    assert released == [False, False, True]


def test_nothing_is_kept_after_the_run_or_into_the_next_prompt(host, lookup):
    encode_to_cpu(Encoder(), ["a"], lookup=lookup)
    encode_turn.wanted_inputs({}, None, ["a"], "disk")
    encode_turn.run({}, None, ["a"], True, "disk")
    assert encode_turn._turns == {}
    encode_turn.wanted_inputs({}, None, ["a"], "disk")
    host.at(0, "prompt 2")
    encode_turn.wanted_inputs({}, None, ["b"], "off")
    assert encode_turn._turn_at(("prompt 2", "7")).lookup is None
    assert list(encode_turn._turns) == [("prompt 2", "7")]


def test_a_failed_run_keeps_nothing(host):
    encode_turn.wanted_inputs({}, None, ["a"], "disk")
    with pytest.raises(ValueError, match="input `clip`"):
        encode_turn.run({}, None, ["a"], True, "disk")
    assert encode_turn._turns == {}


def test_the_cast_buffer_and_the_workspaces_go_before_the_cache_and_the_report(monkeypatch):
    import types

    from headroom.encode import encode

    order = []
    host = types.SimpleNamespace(drop_cast_buffers=lambda: order.append("cast buffer"))
    monkeypatch.setattr(encode, "current_host", lambda: host)
    monkeypatch.setattr(encode, "unload_models", lambda models: order.append("models") or [])
    monkeypatch.setattr(encode, "clear_workspaces", lambda: order.append("workspaces"))
    monkeypatch.setattr(encode, "return_cache", lambda: order.append("cache"))
    encode._release(object(), True, False)
    assert order == ["models", "cast buffer", "workspaces", "cache"]
