# SPDX-License-Identifier: Apache-2.0
"""Keys of Slurm: generating them, and rotating them without an interruption.

`rotation` is the driver of both rotations; `slurm_rotation` and `jwt_rotation` measure their progress. The rules of the
stages are in `slinky.operator.keyrings`.
"""
