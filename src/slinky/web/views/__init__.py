# SPDX-License-Identifier: Apache-2.0
"""What each page shows, as frozen dataclasses made from the data of a cluster. Pure."""
