from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetCheckpointRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetCheckpointResponse(_message.Message):
    __slots__ = ("checkpoint", "cosigned")
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    COSIGNED_FIELD_NUMBER: _ClassVar[int]
    checkpoint: bytes
    cosigned: bytes
    def __init__(self, checkpoint: _Optional[bytes] = ..., cosigned: _Optional[bytes] = ...) -> None: ...

class GetEntriesRequest(_message.Message):
    __slots__ = ("start", "count")
    START_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    start: int
    count: int
    def __init__(self, start: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class GetEntriesResponse(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, entries: _Optional[_Iterable[bytes]] = ...) -> None: ...

class GetInclusionProofRequest(_message.Message):
    __slots__ = ("index", "size")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    index: int
    size: int
    def __init__(self, index: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...

class GetInclusionProofResponse(_message.Message):
    __slots__ = ("path",)
    PATH_FIELD_NUMBER: _ClassVar[int]
    path: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, path: _Optional[_Iterable[bytes]] = ...) -> None: ...

class GetConsistencyProofRequest(_message.Message):
    __slots__ = ("old_size", "new_size")
    OLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    NEW_SIZE_FIELD_NUMBER: _ClassVar[int]
    old_size: int
    new_size: int
    def __init__(self, old_size: _Optional[int] = ..., new_size: _Optional[int] = ...) -> None: ...

class GetConsistencyProofResponse(_message.Message):
    __slots__ = ("path",)
    PATH_FIELD_NUMBER: _ClassVar[int]
    path: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, path: _Optional[_Iterable[bytes]] = ...) -> None: ...

class GetRotationsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetRotationsResponse(_message.Message):
    __slots__ = ("proofs",)
    PROOFS_FIELD_NUMBER: _ClassVar[int]
    proofs: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, proofs: _Optional[_Iterable[bytes]] = ...) -> None: ...

class AddCosignatureRequest(_message.Message):
    __slots__ = ("size", "witness", "signature")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    WITNESS_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    size: int
    witness: str
    signature: str
    def __init__(self, size: _Optional[int] = ..., witness: _Optional[str] = ..., signature: _Optional[str] = ...) -> None: ...

class AddCosignatureResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetCosignaturesRequest(_message.Message):
    __slots__ = ("start", "count")
    START_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    start: int
    count: int
    def __init__(self, start: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class Cosignature(_message.Message):
    __slots__ = ("size", "witness", "signature")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    WITNESS_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    size: int
    witness: str
    signature: str
    def __init__(self, size: _Optional[int] = ..., witness: _Optional[str] = ..., signature: _Optional[str] = ...) -> None: ...

class GetCosignaturesResponse(_message.Message):
    __slots__ = ("cosignatures",)
    COSIGNATURES_FIELD_NUMBER: _ClassVar[int]
    cosignatures: _containers.RepeatedCompositeFieldContainer[Cosignature]
    def __init__(self, cosignatures: _Optional[_Iterable[_Union[Cosignature, _Mapping]]] = ...) -> None: ...
