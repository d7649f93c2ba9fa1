# SPDX-License-Identifier: Apache-2.0
"""Texts that parsers are known to fail on."""

#: Pieces that parsers are known to fail on, and pieces whose repetition is expensive.
PIECES = (
    "²", "٣", "1_000", "+", "-", "-+5", "+-5", "9" * 20, "9" * 4301, "1e9999", "NaN", "Infinity", "\x00", "\n",
    "\r\n", ",", "=", "+=", "a[0-65532]", "a[0-65532],", "a[0-999999999999999999]", "[", "]",
    "(", ")", "[0-9]", "{", "}", '{"a":', "&",
    "|", "||", "!", ".a", "'", '"', "eyJaaaaaaaa-", "eyJaaaaaaaa.", "-----BEGIN PRIVATE KEY-----",
    "NodeName=a[0-65532] ", "IDX:0-", "gres/gpu:", "0-8191,", "0-99999999999", "0x", "f", "1h", "1Ei",
    "99999-00:00:00", "gpu:a:1(S:0-1),", "cpu=1,", "*a, ", "a: &a [",
    "HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999999\r\n\r\n", "- topology: x\n  tree: {switches: [",
)  # fmt: skip
