from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class KeyChunk(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class ListKeysRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListKeysResponse(_message.Message):
    __slots__ = ("keys", "auditor_key")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    AUDITOR_KEY_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[KeyInfo]
    auditor_key: bytes
    def __init__(self, keys: _Optional[_Iterable[_Union[KeyInfo, _Mapping]]] = ..., auditor_key: _Optional[bytes] = ...) -> None: ...

class KeyInfo(_message.Message):
    __slots__ = ("class_name", "class_digest", "key_digest", "size", "made_by")
    CLASS_NAME_FIELD_NUMBER: _ClassVar[int]
    CLASS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    KEY_DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    MADE_BY_FIELD_NUMBER: _ClassVar[int]
    class_name: str
    class_digest: bytes
    key_digest: bytes
    size: int
    made_by: str
    def __init__(self, class_name: _Optional[str] = ..., class_digest: _Optional[bytes] = ..., key_digest: _Optional[bytes] = ..., size: _Optional[int] = ..., made_by: _Optional[str] = ...) -> None: ...

class GetKeyRequest(_message.Message):
    __slots__ = ("key_digest",)
    KEY_DIGEST_FIELD_NUMBER: _ClassVar[int]
    key_digest: bytes
    def __init__(self, key_digest: _Optional[bytes] = ...) -> None: ...

class RequestAuditRequest(_message.Message):
    __slots__ = ("provider", "window", "sample")
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    provider: str
    window: str
    sample: int
    def __init__(self, provider: _Optional[str] = ..., window: _Optional[str] = ..., sample: _Optional[int] = ...) -> None: ...

class RequestAuditResponse(_message.Message):
    __slots__ = ("audit_id",)
    AUDIT_ID_FIELD_NUMBER: _ClassVar[int]
    audit_id: str
    def __init__(self, audit_id: _Optional[str] = ...) -> None: ...

class GetReportRequest(_message.Message):
    __slots__ = ("audit_id",)
    AUDIT_ID_FIELD_NUMBER: _ClassVar[int]
    audit_id: str
    def __init__(self, audit_id: _Optional[str] = ...) -> None: ...

class GetReportResponse(_message.Message):
    __slots__ = ("done", "line", "report_json", "signed_verdict", "verdict_proof")
    DONE_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    REPORT_JSON_FIELD_NUMBER: _ClassVar[int]
    SIGNED_VERDICT_FIELD_NUMBER: _ClassVar[int]
    VERDICT_PROOF_FIELD_NUMBER: _ClassVar[int]
    done: bool
    line: str
    report_json: bytes
    signed_verdict: bytes
    verdict_proof: bytes
    def __init__(self, done: _Optional[bool] = ..., line: _Optional[str] = ..., report_json: _Optional[bytes] = ..., signed_verdict: _Optional[bytes] = ..., verdict_proof: _Optional[bytes] = ...) -> None: ...
