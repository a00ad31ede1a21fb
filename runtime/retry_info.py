# SPDX-License-Identifier: GPL-3.0-or-later
"""When to come again, in a status's details as every gRPC library reads them: google.rpc.Status with a RetryInfo.

The two messages are defined here, in a pool of their own: their published package is needed for nothing else, and where
a program has it as well the two do not meet.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, duration_pb2, message, message_factory

KEY = "grpc-status-details-bin"  #: trailing metadata that holds a google.rpc.Status
TYPE = "type.googleapis.com/google.rpc.RetryInfo"
MAX_BYTES = 4096  #: of details that are read
MAX_SECONDS = 10**6  #: a longer wait is no advice


@cache
def _messages() -> tuple[Any, Any]:
    """The classes Status and RetryInfo."""
    field = descriptor_pb2.FieldDescriptorProto
    one, many = field.LABEL_OPTIONAL, field.LABEL_REPEATED
    file = descriptor_pb2.FileDescriptorProto(
        name="ragseal/google_rpc.proto",
        package="google.rpc",
        syntax="proto3",
        dependency=["google/protobuf/any.proto", "google/protobuf/duration.proto"],
    )
    status = file.message_type.add(name="Status")
    status.field.add(name="code", number=1, label=one, type=field.TYPE_INT32)
    status.field.add(name="message", number=2, label=one, type=field.TYPE_STRING)
    status.field.add(
        name="details", number=3, label=many, type=field.TYPE_MESSAGE, type_name=".google.protobuf.Any"
    )  # fmt: skip
    info = file.message_type.add(name="RetryInfo")
    info.field.add(
        name="retry_delay", number=1, label=one, type=field.TYPE_MESSAGE, type_name=".google.protobuf.Duration"
    )  # fmt: skip
    pool = descriptor_pool.DescriptorPool()
    for known in (any_pb2, duration_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return (
        message_factory.GetMessageClass(pool.FindMessageTypeByName("google.rpc.Status")),
        message_factory.GetMessageClass(pool.FindMessageTypeByName("google.rpc.RetryInfo")),
    )


def details(code: int, text: str, seconds: float) -> tuple[str, bytes]:
    """The trailing metadata of a status that says after how many seconds to come again, rounded up to milliseconds."""
    status, info = _messages()
    thousandths = math.ceil(seconds * 1000)
    delay = {"seconds": thousandths // 1000, "nanos": thousandths % 1000 * 10**6}
    made = status(code=code, message=text)
    made.details.add(type_url=TYPE, value=info(retry_delay=delay).SerializeToString())
    return KEY, made.SerializeToString()


def seconds_of(metadata: bytes) -> float | None:
    """What :func:`details` says; None where it says nothing of the kind.  It may come from an enemy."""
    if len(metadata) > MAX_BYTES:
        return None
    status, info = _messages()
    try:
        for one in status.FromString(metadata).details:
            if one.type_url == TYPE:
                delay = info.FromString(one.value).retry_delay
                seconds = float(delay.seconds) + float(delay.nanos) / 1e9
                return seconds if 0 <= seconds <= MAX_SECONDS else None
    except message.DecodeError:
        pass
    return None
