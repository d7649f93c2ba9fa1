# SPDX-License-Identifier: Apache-2.0
"""What a lab is made of, and how each part is had: Debian trees, Go programs, container images."""
