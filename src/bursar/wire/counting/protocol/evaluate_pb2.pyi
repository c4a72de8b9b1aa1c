from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PodUsageRequest(_message.Message):
    __slots__ = ("pod", "podsState")
    POD_FIELD_NUMBER: _ClassVar[int]
    PODSSTATE_FIELD_NUMBER: _ClassVar[int]
    pod: Pod
    podsState: _containers.RepeatedCompositeFieldContainer[Pod]
    def __init__(self, pod: _Optional[_Union[Pod, _Mapping]] = ..., podsState: _Optional[_Iterable[_Union[Pod, _Mapping]]] = ...) -> None: ...

class PodUsageResponse(_message.Message):
    __slots__ = ("resourceList", "match", "error")
    RESOURCELIST_FIELD_NUMBER: _ClassVar[int]
    MATCH_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    resourceList: ResourceList
    match: bool
    error: Error
    def __init__(self, resourceList: _Optional[_Union[ResourceList, _Mapping]] = ..., match: _Optional[bool] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("error", "errorMessage")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ERRORMESSAGE_FIELD_NUMBER: _ClassVar[int]
    error: bool
    errorMessage: str
    def __init__(self, error: _Optional[bool] = ..., errorMessage: _Optional[str] = ...) -> None: ...

class HealthCheckRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HealthCheckResponse(_message.Message):
    __slots__ = ("healthy",)
    HEALTHY_FIELD_NUMBER: _ClassVar[int]
    healthy: bool
    def __init__(self, healthy: _Optional[bool] = ...) -> None: ...

class ResourceList(_message.Message):
    __slots__ = ("resourceListJson",)
    RESOURCELISTJSON_FIELD_NUMBER: _ClassVar[int]
    resourceListJson: bytes
    def __init__(self, resourceListJson: _Optional[bytes] = ...) -> None: ...

class Pod(_message.Message):
    __slots__ = ("podJson",)
    PODJSON_FIELD_NUMBER: _ClassVar[int]
    podJson: bytes
    def __init__(self, podJson: _Optional[bytes] = ...) -> None: ...
