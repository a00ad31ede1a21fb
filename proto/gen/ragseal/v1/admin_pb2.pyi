from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AdminResult(_message.Message):
    __slots__ = ("json", "text")
    JSON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    json: str
    text: str
    def __init__(self, json: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class AdminProgress(_message.Message):
    __slots__ = ("doing", "done", "total", "result")
    DOING_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    doing: str
    done: int
    total: int
    result: AdminResult
    def __init__(self, doing: _Optional[str] = ..., done: _Optional[int] = ..., total: _Optional[int] = ..., result: _Optional[_Union[AdminResult, _Mapping]] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AccountLine(_message.Message):
    __slots__ = ("name", "tenant", "public_key")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    name: str
    tenant: str
    public_key: bytes
    def __init__(self, name: _Optional[str] = ..., tenant: _Optional[str] = ..., public_key: _Optional[bytes] = ...) -> None: ...

class AddAccountsRequest(_message.Message):
    __slots__ = ("accounts",)
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    accounts: _containers.RepeatedCompositeFieldContainer[AccountLine]
    def __init__(self, accounts: _Optional[_Iterable[_Union[AccountLine, _Mapping]]] = ...) -> None: ...

class RemoveAccountRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListAccountsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AdmitAuditorRequest(_message.Message):
    __slots__ = ("name", "public_key")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    name: str
    public_key: bytes
    def __init__(self, name: _Optional[str] = ..., public_key: _Optional[bytes] = ...) -> None: ...

class RemoveAuditorRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListAuditorsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PutDocumentsRequest(_message.Message):
    __slots__ = ("tenant", "lines", "strict")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    STRICT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    lines: bytes
    strict: bool
    def __init__(self, tenant: _Optional[str] = ..., lines: _Optional[bytes] = ..., strict: _Optional[bool] = ...) -> None: ...

class DeleteDocumentsRequest(_message.Message):
    __slots__ = ("tenant", "ids")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tenant: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ...) -> None: ...

class EraseDocumentRequest(_message.Message):
    __slots__ = ("tenant", "id", "reason")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    id: str
    reason: str
    def __init__(self, tenant: _Optional[str] = ..., id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ListErasuresRequest(_message.Message):
    __slots__ = ("tenant", "id")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    id: str
    def __init__(self, tenant: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class ListDocumentsRequest(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    def __init__(self, tenant: _Optional[str] = ...) -> None: ...

class SyncDocumentsRequest(_message.Message):
    __slots__ = ("tenant", "source", "vectors", "keep_missing", "chunk", "metadata_fields", "follow", "every", "strict")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    VECTORS_FIELD_NUMBER: _ClassVar[int]
    KEEP_MISSING_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELDS_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    EVERY_FIELD_NUMBER: _ClassVar[int]
    STRICT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    source: str
    vectors: str
    keep_missing: bool
    chunk: int
    metadata_fields: _containers.RepeatedScalarFieldContainer[str]
    follow: bool
    every: float
    strict: bool
    def __init__(self, tenant: _Optional[str] = ..., source: _Optional[str] = ..., vectors: _Optional[str] = ..., keep_missing: _Optional[bool] = ..., chunk: _Optional[int] = ..., metadata_fields: _Optional[_Iterable[str]] = ..., follow: _Optional[bool] = ..., every: _Optional[float] = ..., strict: _Optional[bool] = ...) -> None: ...

class AuditorSeat(_message.Message):
    __slots__ = ("owner", "public_key")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    owner: str
    public_key: bytes
    def __init__(self, owner: _Optional[str] = ..., public_key: _Optional[bytes] = ...) -> None: ...

class CommitWindowRequest(_message.Message):
    __slots__ = ("policy", "window", "auditors", "agreed", "new_coins")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    AUDITORS_FIELD_NUMBER: _ClassVar[int]
    AGREED_FIELD_NUMBER: _ClassVar[int]
    NEW_COINS_FIELD_NUMBER: _ClassVar[int]
    policy: bytes
    window: str
    auditors: _containers.RepeatedCompositeFieldContainer[AuditorSeat]
    agreed: float
    new_coins: bool
    def __init__(self, policy: _Optional[bytes] = ..., window: _Optional[str] = ..., auditors: _Optional[_Iterable[_Union[AuditorSeat, _Mapping]]] = ..., agreed: _Optional[float] = ..., new_coins: _Optional[bool] = ...) -> None: ...

class EndWindowRequest(_message.Message):
    __slots__ = ("window",)
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    window: str
    def __init__(self, window: _Optional[str] = ...) -> None: ...

class RetireWindowRequest(_message.Message):
    __slots__ = ("window", "agreed", "unproven")
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    AGREED_FIELD_NUMBER: _ClassVar[int]
    UNPROVEN_FIELD_NUMBER: _ClassVar[int]
    window: str
    agreed: bool
    unproven: bool
    def __init__(self, window: _Optional[str] = ..., agreed: _Optional[bool] = ..., unproven: _Optional[bool] = ...) -> None: ...

class ExportProofsRequest(_message.Message):
    __slots__ = ("folder", "window")
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    folder: str
    window: str
    def __init__(self, folder: _Optional[str] = ..., window: _Optional[str] = ...) -> None: ...

class BackupRequest(_message.Message):
    __slots__ = ("folder", "keys")
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    folder: str
    keys: str
    def __init__(self, folder: _Optional[str] = ..., keys: _Optional[str] = ...) -> None: ...
