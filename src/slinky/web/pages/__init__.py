# SPDX-License-Identifier: Apache-2.0
"""The HTML of each page, made from its view. Pure."""
