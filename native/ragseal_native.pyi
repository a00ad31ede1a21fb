# SPDX-License-Identifier: GPL-3.0-or-later
"""BN254 groups and fields, snarkjs files, Groth16, circom witnesses and the answer engine of ragseal.

Scalars are 32 bytes, G1 points 64, G2 points 128 (EIP-197 order), all big-endian and canonical; arrays are plain
concatenations.  Every function raises NativeError on malformed input and runs without the GIL.
"""

__version__: str

class NativeError(ValueError):
    """Malformed input, a failed check or an impossible request; the message says which."""

def g1_check(points: bytes) -> None:
    """Every point is canonical, on the curve and not the identity."""

def g1_msm(points: bytes, scalars: bytes) -> bytes:
    """sum_i scalars[i] * points[i]; identity points (64 zero bytes) are allowed in and out.

    Small scalars and small negative ones (r - n) cost little.
    """

def g1_msm_int(points: bytes, integers: list[int]) -> bytes:
    """As g1_msm for signed 64-bit integers."""

def g1_sum(points: bytes) -> bytes:
    """Sum of points."""

def hash_to_curve(domain: bytes, count: int) -> bytes:
    """``count`` generators by try-and-increment over SHA-512(domain || u32be(index) || u32be(attempt))."""

def commit_columns(y_points: bytes, b_point: bytes, matrix: bytes, d: int, blinders: bytes) -> bytes:
    """d points C_j = sum_i E[i][j] Y_i + blinders[j] B of a row-major int8 matrix with one row a point of y_points."""

def update_columns(
    columns: bytes, y_points: bytes, b_point: bytes, slots: list[int], delta: bytes, d: int, blinder_deltas: bytes
) -> bytes:
    """C_j + sum_k delta[k][j] Y_slots[k] + blinder_deltas[j] B; delta holds rows of d little-endian int16."""

def linear_combination(vectors: list[bytes], coefficients: bytes) -> bytes:
    """sum_t coefficients[t] * vectors[t] mod r for vectors of one length."""

def matrix_combination(matrix: bytes, d: int, chi: bytes) -> bytes:
    """a_i = sum_j chi^j E[i][j] mod r of a row-major int8 matrix."""

def respond(nonces: bytes, challenge: bytes, witness: bytes) -> bytes:
    """nonces + challenge * witness mod r, element by element."""

def powers(chi: bytes, count: int) -> bytes:
    """chi^0 .. chi^(count-1)."""

def random_scalars(count: int) -> bytes:
    """Uniform scalars from the operating system's generator."""

def poseidon(inputs: list[bytes]) -> bytes:
    """circomlib's Poseidon of 1 to 16 elements."""

def poseidon_permute(state: list[bytes]) -> list[bytes]:
    """The permutation on 2 to 17 elements."""
