"""FNV-1a, the hash behind the kubelet's container hashes, back-off keys and static pod uids.

Source: Go hash/fnv; constants from the FNV specification.
"""


def _fnv1a(data: bytes, offset: int, prime: int, bits: int) -> int:
    mask = (1 << bits) - 1
    state = offset
    for byte in data:
        state = ((state ^ byte) * prime) & mask
    return state


def fnv1a_32(data: bytes) -> int:
    """Return the 32-bit hash."""
    return _fnv1a(data, 0x811C9DC5, 0x01000193, 32)


def fnv1a_64(data: bytes) -> int:
    """Return the 64-bit hash."""
    return _fnv1a(data, 0xCBF29CE484222325, 0x100000001B3, 64)


def fnv1a_128(data: bytes) -> int:
    """Return the 128-bit hash."""
    offset = 0x6C62272E07BB014262B821756295C58D
    prime = 0x0000000001000000000000000000013B
    return _fnv1a(data, offset, prime, 128)
