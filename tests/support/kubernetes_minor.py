# SPDX-License-Identifier: Apache-2.0
"""The minor version of the API server that integration tests use; `make compat` sets others."""

import os

MINOR = os.environ.get("SLINKY_KUBE_MINOR", "1.36")
