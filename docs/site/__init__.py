# SPDX-License-Identifier: Apache-2.0
"""The documentation site: the pages of this repository, built by Zensical into one folder that needs no server."""
