# SPDX-License-Identifier: Apache-2.0
"""The kinds of `slinky.slurm.net/v1beta1`, one module each, and the names of labels, annotations and child objects."""

from typing import TYPE_CHECKING

from slinky.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from slinky.api.accounting import ACCOUNTINGS, Accounting, AccountingSpec, AccountingStatus, AccountingStorage
    from slinky.api.controller import CONTROLLERS, Controller, ControllerSpec, ControllerStatus, Persistence
    from slinky.api.fields import conditions
    from slinky.api.fields.amounts import scaled_value, seconds
    from slinky.api.fields.drain import Drain
    from slinky.api.fields.refs import ConfigKeyRef, KeyRef, LocalRef
    from slinky.api.fields.templates import (
        ExternalHost,
        PersistentVolumeClaimSpec,
        PodTemplate,
        ServicePart,
        TemplateMeta,
    )
    from slinky.api.fields.update_strategy import RollingUpdate, ScheduledUpdate, UpdateStrategy
    from slinky.api.loginset import LOGIN_SETS, LoginSet, LoginSetSpec, LoginSetStatus
    from slinky.api.names import child_names, metadata, wellknown
    from slinky.api.names.wellknown import API_VERSION, GROUP, VERSION
    from slinky.api.nodeset import NODE_SETS, NodeSet, NodeSetSpec, NodeSetStatus
    from slinky.api.restapi import REST_APIS, RestApi, RestApiSpec, RestApiStatus
    from slinky.api.token import TOKENS, Token, TokenSpec, TokenStatus

__all__ = [
    "ACCOUNTINGS",
    "API_VERSION",
    "CONTROLLERS",
    "GROUP",
    "LOGIN_SETS",
    "NODE_SETS",
    "REST_APIS",
    "TOKENS",
    "VERSION",
    "Accounting",
    "AccountingSpec",
    "AccountingStatus",
    "AccountingStorage",
    "ConfigKeyRef",
    "Controller",
    "ControllerSpec",
    "ControllerStatus",
    "Drain",
    "ExternalHost",
    "KeyRef",
    "LocalRef",
    "LoginSet",
    "LoginSetSpec",
    "LoginSetStatus",
    "NodeSet",
    "NodeSetSpec",
    "NodeSetStatus",
    "Persistence",
    "PersistentVolumeClaimSpec",
    "PodTemplate",
    "RestApi",
    "RestApiSpec",
    "RestApiStatus",
    "RollingUpdate",
    "ScheduledUpdate",
    "ServicePart",
    "TemplateMeta",
    "Token",
    "TokenSpec",
    "TokenStatus",
    "UpdateStrategy",
    "child_names",
    "conditions",
    "metadata",
    "scaled_value",
    "seconds",
    "wellknown",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "accounting": "ACCOUNTINGS Accounting AccountingSpec AccountingStatus AccountingStorage",
        "controller": "CONTROLLERS Controller ControllerSpec ControllerStatus Persistence",
        "fields": "conditions",
        "fields.amounts": "scaled_value seconds",
        "fields.drain": "Drain",
        "fields.refs": "ConfigKeyRef KeyRef LocalRef",
        "fields.templates": "ExternalHost PersistentVolumeClaimSpec PodTemplate ServicePart TemplateMeta",
        "fields.update_strategy": "RollingUpdate ScheduledUpdate UpdateStrategy",
        "loginset": "LOGIN_SETS LoginSet LoginSetSpec LoginSetStatus",
        "names": "child_names metadata wellknown",
        "names.wellknown": "API_VERSION GROUP VERSION",
        "nodeset": "NODE_SETS NodeSet NodeSetSpec NodeSetStatus",
        "restapi": "REST_APIS RestApi RestApiSpec RestApiStatus",
        "token": "TOKENS Token TokenSpec TokenStatus",
    },
)
