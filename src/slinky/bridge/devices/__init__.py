# SPDX-License-Identifier: Apache-2.0
"""Devices: what nodes have (`supply`), what pods want (`wants`), who gets which (`grant`), what is told (`claim`)."""
