# SPDX-License-Identifier: Apache-2.0
"""What a release publishes: packages, charts, manifests, the kubectl plugin, completions, checksums."""
