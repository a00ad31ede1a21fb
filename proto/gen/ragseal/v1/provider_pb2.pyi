from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WindowState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WINDOW_STATE_UNSPECIFIED: _ClassVar[WindowState]
    WINDOW_STATE_COMMITTED: _ClassVar[WindowState]
    WINDOW_STATE_SEALED: _ClassVar[WindowState]
    WINDOW_STATE_OPEN: _ClassVar[WindowState]
    WINDOW_STATE_CLOSED: _ClassVar[WindowState]
WINDOW_STATE_UNSPECIFIED: WindowState
WINDOW_STATE_COMMITTED: WindowState
WINDOW_STATE_SEALED: WindowState
WINDOW_STATE_OPEN: WindowState
WINDOW_STATE_CLOSED: WindowState

class Chunk(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class GetManifestRequest(_message.Message):
    __slots__ = ("window",)
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    window: str
    def __init__(self, window: _Optional[str] = ...) -> None: ...

class GetManifestResponse(_message.Message):
    __slots__ = ("canonical", "state", "ledger_index", "records")
    CANONICAL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LEDGER_INDEX_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    canonical: bytes
    state: WindowState
    ledger_index: int
    records: int
    def __init__(self, canonical: _Optional[bytes] = ..., state: _Optional[_Union[WindowState, str]] = ..., ledger_index: _Optional[int] = ..., records: _Optional[int] = ...) -> None: ...

class GetAccountRequest(_message.Message):
    __slots__ = ("canonical", "signature")
    CANONICAL_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    canonical: bytes
    signature: bytes
    def __init__(self, canonical: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class GetAccountResponse(_message.Message):
    __slots__ = ("canonical",)
    CANONICAL_FIELD_NUMBER: _ClassVar[int]
    canonical: bytes
    def __init__(self, canonical: _Optional[bytes] = ...) -> None: ...

class AskRequest(_message.Message):
    __slots__ = ("canonical", "signature")
    CANONICAL_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    canonical: bytes
    signature: bytes
    def __init__(self, canonical: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class GetIndexRequest(_message.Message):
    __slots__ = ("manifest", "tenant", "version")
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    manifest: bytes
    tenant: str
    version: int
    def __init__(self, manifest: _Optional[bytes] = ..., tenant: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class CommitBeaconRequest(_message.Message):
    __slots__ = ("canonical",)
    CANONICAL_FIELD_NUMBER: _ClassVar[int]
    canonical: bytes
    def __init__(self, canonical: _Optional[bytes] = ...) -> None: ...

class CommitBeaconResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SubmitVerdictRequest(_message.Message):
    __slots__ = ("canonical",)
    CANONICAL_FIELD_NUMBER: _ClassVar[int]
    canonical: bytes
    def __init__(self, canonical: _Optional[bytes] = ...) -> None: ...

class SubmitVerdictResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class OpenBeaconRequest(_message.Message):
    __slots__ = ("canonical",)
    CANONICAL_FIELD_NUMBER: _ClassVar[int]
    canonical: bytes
    def __init__(self, canonical: _Optional[bytes] = ...) -> None: ...

class OpenBeaconResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: WindowState
    def __init__(self, state: _Optional[_Union[WindowState, str]] = ...) -> None: ...

class PrepareRequest(_message.Message):
    __slots__ = ("canonical", "signature")
    CANONICAL_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    canonical: bytes
    signature: bytes
    def __init__(self, canonical: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class PrepareResponse(_message.Message):
    __slots__ = ("canonical", "answered")
    CANONICAL_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    canonical: bytes
    answered: int
    def __init__(self, canonical: _Optional[bytes] = ..., answered: _Optional[int] = ...) -> None: ...

class RetrieveRequest(_message.Message):
    __slots__ = ("canonical", "signature", "known_size")
    CANONICAL_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    KNOWN_SIZE_FIELD_NUMBER: _ClassVar[int]
    canonical: bytes
    signature: bytes
    known_size: int
    def __init__(self, canonical: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., known_size: _Optional[int] = ...) -> None: ...

class RetrieveResponse(_message.Message):
    __slots__ = ("canonical", "consistency", "update")
    CANONICAL_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    canonical: bytes
    consistency: _containers.RepeatedScalarFieldContainer[bytes]
    update: int
    def __init__(self, canonical: _Optional[bytes] = ..., consistency: _Optional[_Iterable[bytes]] = ..., update: _Optional[int] = ...) -> None: ...

class GetRecordsRequest(_message.Message):
    __slots__ = ("manifest", "start", "count")
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    manifest: bytes
    start: int
    count: int
    def __init__(self, manifest: _Optional[bytes] = ..., start: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class GetRecordsResponse(_message.Message):
    __slots__ = ("canonical", "ledger_index")
    CANONICAL_FIELD_NUMBER: _ClassVar[int]
    LEDGER_INDEX_FIELD_NUMBER: _ClassVar[int]
    canonical: _containers.RepeatedScalarFieldContainer[bytes]
    ledger_index: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, canonical: _Optional[_Iterable[bytes]] = ..., ledger_index: _Optional[_Iterable[int]] = ...) -> None: ...

class CloseWindowRequest(_message.Message):
    __slots__ = ("manifest", "signature")
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    manifest: bytes
    signature: bytes
    def __init__(self, manifest: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class CloseWindowResponse(_message.Message):
    __slots__ = ("ledger_index", "records")
    LEDGER_INDEX_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    ledger_index: int
    records: int
    def __init__(self, ledger_index: _Optional[int] = ..., records: _Optional[int] = ...) -> None: ...
