# SPDX-License-Identifier: Apache-2.0
"""The version of the native PodGroup that the bridge uses on the API server of the tests."""

from typing import Any

from tests.support.kubernetes_minor import MINOR

#: By minor version of the server: the version, and the reference of a group to the template `t` of the Workload `w`.
_USED: dict[str, tuple[str, dict[str, Any]]] = {
    "1.36": ("v1alpha2", {"podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}}),
    "1.37": ("v1beta1", {"workloadRef": {"workloadName": "w", "templateName": "t"}}),
}
NATIVE_VERSION, WORKLOAD_REFERENCE = _USED[MINOR]
