# SPDX-License-Identifier: Apache-2.0
"""The demo: a site installed with our charts, and the work that runs in it."""
