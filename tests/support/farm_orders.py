"""What a farm asks one of its servers, for the server that computes nothing."""

from farm.keys import prompt_id_of
from farm.prompts import asked_for
from farm.words import Order
from farm.worker import Patience

QUICK = Patience(start=30.0, silent=0.6, prompt=20.0)


def asked(extra=None, kind="Fake", **inputs):
    prompt = {"1": {"class_type": kind, "inputs": inputs}}
    return asked_for("p", {"prompt": prompt, "extra_data": extra or {}})


def order(one, attempt=0, **options):
    return Order(one, prompt_id_of(one.key, "a", attempt), **options)
