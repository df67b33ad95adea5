"""A worker's messages, mutated: each is refused or read as it stands, and nothing else comes of it."""

import json
import os
import random
import struct
from dataclasses import asdict

import numpy as np
import pytest

from whest.cases.prediction import Failure, Prediction
from whest.cost import Charge, Cost, Timing
from whest.estimator.contract import SetupContext
from whest.isolation.channel import Channel, read_frame
from whest.isolation.messages import (
    LONGEST_TEXT,
    WorkerFailedError,
    cut,
    largest_answer,
    read_failure,
    read_prediction,
    write_prediction,
)
from whest.isolation.wire import (
    PROGRAM,
    Bounds,
    ChannelClosedError,
    Pipe,
    RefusedError,
    answer_bounds,
    frame,
    parse_header,
)

CONTEXT = SetupContext(16, 3, 10**8, 1e11, 20.0, None, 0, ".", None)
N_MUTATED = 2000
MEANS = np.linspace(0, 1, 48, dtype=np.float32).reshape(3, 16)
COST = Cost((Charge("layer", "dot_general", 1234, 5), Charge("", "add", 7, 1)))


ODD = (b"[", b"{", b'"', b"\\ud800", b"9" * 400, b"NaN", b"-1", b"null", b"1e999", b"\0")


def recorded(message: dict, arrays: list) -> bytes:
    """The bytes that a worker sends."""
    read_fd, write_fd = os.pipe()
    Channel(os.dup(read_fd), write_fd).send(message, arrays)
    os.close(write_fd)
    with os.fdopen(read_fd, "rb") as file:
        return file.read()


ANSWERS = [
    write_prediction(Prediction(MEANS, COST, Timing(0.1, 0.2, 0.3))),
    write_prediction(
        Prediction(None, COST, Timing(), Failure("PREDICT_ERROR", "no \ud83d\ude00 good", "line 1\nline 2"))
    ),
    ({"broken": "ValueError: no", "traceback": "…"}, []),
]


def received(data: bytes, bounds: Bounds) -> tuple[dict, list]:
    read_fd, write_fd = os.pipe()
    keep_fd = os.dup(write_fd)
    channel = Channel(read_fd, write_fd)
    try:
        assert os.write(write_fd, data) == len(data)
        os.close(keep_fd)
        os.close(write_fd)
        return channel.receive(bounds=bounds)
    finally:
        channel.close()


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Bytes changed, cut out, doubled or put in; the length made right again in half of the cases."""
    body = bytearray(data[8:])
    for _ in range(chance.choice((1, 1, 2, 5, 30))):
        at, n = chance.randrange(len(body)), chance.choice((1, 2, 10, 100))
        kind = chance.randrange(5)
        if kind == 0:
            body[at] = chance.randrange(256)
        elif kind == 1:
            del body[at : at + n]
        elif kind == 2:
            body[at:at] = body[at : at + n] * chance.choice((1, 2, 50))
        elif kind == 3:
            body[at:at] = chance.choice(
                (b"[", b"{", b'"', b"\\ud800", b"9" * 400, b"NaN", b"-1", b"null", b"1e999", b"\0")
            )
        else:
            digits = [i for i, byte in enumerate(body) if 48 <= byte <= 57]
            body[chance.choice(digits or [0])] = chance.choice(b"0123456789")
        if not body:
            body = bytearray(b"x")
    (length,) = struct.unpack("<Q", data[:8])
    length += len(body) - (len(data) - 8) if chance.random() < 0.5 else 0
    return struct.pack("<Q", max(length, 0)) + bytes(body)


def spelled(message: object) -> bytes:
    """With a question mark for half a character, as `parse_header` has it."""
    return json.dumps(message, ensure_ascii=False).encode(errors="replace")


def test_mutated_messages_are_refused_or_right() -> None:
    chance, outcomes = random.Random(20), {"refused": 0, "read": 0, "wrong form": 0}
    originals = [recorded(*answer) for answer in ANSWERS]
    bounds = answer_bounds(largest_answer(CONTEXT))
    for i in range(N_MUTATED):
        data = mutated(originals[i % len(originals)], chance)
        try:
            message, arrays = received(data, bounds)
        except ChannelClosedError:
            outcomes["refused"] += 1
            continue
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        assert len(arrays) == len(header["arrays"])
        assert spelled(message) == spelled(header["message"])
        try:
            prediction = read_prediction(message, arrays, CONTEXT)
            assert prediction.cost.flops >= 0
            assert prediction.means is None or np.isfinite(prediction.means).all()
            outcomes["read"] += 1
        except WorkerFailedError:
            outcomes["wrong form"] += 1
    assert sum(outcomes.values()) == N_MUTATED
    assert min(outcomes.values()) > N_MUTATED / 50, outcomes  # each way is really taken


def test_what_was_sent_is_what_is_read() -> None:
    for message, arrays in ANSWERS:
        found, results = received(recorded(message, arrays), PROGRAM)
        assert json.dumps(found) == json.dumps(message)
        assert all((one == other).all() for one, other in zip(results, arrays, strict=True))


SMALL = Bounds(header_bytes=1000, values=50, depth=5, name_length=10, text_length=100, array_bytes=100, arrays=3)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({"message": {"a": "x" * 2000}, "arrays": []}, "bytes is more than is allowed"),
        ({"message": {"a": [0] * 60}, "arrays": []}, "values is more than is allowed"),
        ({"message": {"a": [[[[[[]]]]]]}, "arrays": []}, "nested more than 5 deep"),
        ({"message": {"a" * 11: 1}, "arrays": []}, "name in a message is longer"),
        ({"message": {"a": "x" * 101}, "arrays": []}, "text of 101 characters"),
        ({"message": {}, "arrays": [["int8", [101]]]}, "arrays of 101 bytes"),
        ({"message": {}, "arrays": [["int8", [0]]] * 4}, "a list of at most 3 arrays"),
        ({"message": {}, "arrays": [["int9", [0]]]}, "an array is a kind of numbers and a shape"),
        ({"message": {}, "arrays": [["int8", [-1]]]}, "an array is a kind of numbers and a shape"),
        ({"message": {}, "arrays": [3]}, "an array is a kind of numbers and a shape"),
        ({"message": {}}, "the fields message and arrays"),
        ([], "the fields message and arrays"),
    ],
)
def test_each_bound_has_its_sentence(header: object, words: str) -> None:
    with pytest.raises(ChannelClosedError, match=words):
        received(frame(header), SMALL)


@pytest.mark.parametrize("data", ['{"a": "é"}'.encode(), b"{", b"[" * 900, b'{"a": ' + b"9" * 5000 + b"}", b"\xff\xfe"])
def test_what_is_no_plain_json_is_refused(data: bytes) -> None:
    with pytest.raises(ChannelClosedError):
        parse_header(bytearray(data), PROGRAM)


def test_half_a_character_becomes_a_whole_one() -> None:
    assert parse_header(bytearray(b'{"a": "\\ud800!"}'), PROGRAM) == {"a": "?!"}
    assert parse_header(bytearray(b'{"a": "\\uD800"}'), PROGRAM) == {"a": "?"}


def test_a_long_error_is_cut_with_a_note() -> None:
    found = read_failure(asdict(Failure("PREDICT_ERROR", "m" * 50_000, "t" * 50_000)))
    for text in (found.message, str(found.traceback)):
        assert len(text) < LONGEST_TEXT + 100
        assert "46,000 characters cut" in text
    assert cut("short") == "short"


def test_a_reader_that_is_gone_is_an_error_and_not_a_hang() -> None:
    read_fd, write_fd = os.pipe()
    other_fd, unused_fd = os.pipe()
    pipe = Pipe(other_fd, write_fd)
    os.close(read_fd)
    with pytest.raises(ChannelClosedError):
        pipe.write(b"x" * 10)
    pipe.close()
    os.close(unused_fd)


def test_a_learners_programs_may_bring_more_arrays_than_an_answer() -> None:
    """byte_attention's have 258 constants; an answer with figures has a hundred arrays at most."""
    shapes = [["float32", [1]]] * 258
    header = parse_header(bytearray(frame({"message": {}, "arrays": shapes})[8:]), answer_bounds(4000))
    assert len(read_frame(header, answer_bounds(4000, PROGRAM.arrays))[1]) == 258
    with pytest.raises(RefusedError):
        read_frame(header, answer_bounds(4000))
