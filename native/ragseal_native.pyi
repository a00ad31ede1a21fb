# SPDX-License-Identifier: GPL-3.0-or-later
"""BN254 groups and fields, snarkjs files, Groth16, circom witnesses and the answer engine of ragseal.

Scalars are 32 bytes, G1 points 64, G2 points 128 (EIP-197 order), all big-endian and canonical; arrays are plain
concatenations.  Every function raises NativeError on malformed input and, but for poseidon, runs without the GIL.
"""

import builtins
from os import PathLike
from typing import Self, TypedDict, final, type_check_only

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

def g1_fold(points: bytes, u: bytes) -> bytes:
    """u * left + right of the two halves, point by point; the left half of an odd number is the longer one.

    Identity points are allowed in and out; u is not 0.
    """

def pairings_cancel(g1: bytes, g2: bytes) -> bool:
    """Whether the product of e(P_i, Q_i) is 1; identities are allowed in G1, every Q_i is proper."""

def g2_check(point: bytes) -> None:
    """The point is canonical, on the twist, in the subgroup and not the identity."""

def g2_multiply(point: bytes, n: bytes) -> bytes:
    """n * Q of a point on the twist, in the subgroup or not, for any n of 256 bits; zeros are the identity."""

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

@final
class ScoreMatrix:
    """A row-major int8 matrix of d columns."""

    def __new__(cls, matrix: bytes | memoryview, d: int) -> Self:
        """Holds the buffer and reads it, without a copy.  NativeError unless it is contiguous and for reading only."""

    def scores(self, e: bytes) -> bytes:
        """<row, e> of every row, exactly: int8 entries in, little-endian int32 out."""

@final
class Committer:
    """Column commitments C_j and B, checked once."""

    def __new__(cls, columns: bytes, b: bytes) -> Self: ...
    def commit(self, e: bytes, rho: bytes) -> bytes:
        """sum_j e_j C_j + rho B for int8 entries of e."""

@type_check_only
class Response(TypedDict):
    ids: list[int]
    flags: list[bool]
    scores: list[int]
    c_y: bytes

@type_check_only
class NoiseSelection(TypedDict):
    ids: list[int]
    flags: list[bool]
    v: int
    i_star: int

@final
class NoiseEngine:
    """The mechanism with noise of one class: one threshold for all shards, and the committed hints of each shard."""

    def __new__(cls, params: dict[str, int], bounds: list[int], cdf: list[bytes], grid: int) -> Self:
        """params: N, K, R, m, q, c, S, bits; bounds: Q(k); cdf: 16 big-endian bytes of F(-1), F(0), ..., F(cut).

        F(-1) is 0 of a law without negative values, F(cut) is 2^bits.
        """

    def answer(self, key: bytes, w: bytes, steps: int) -> NoiseSelection:
        """ids (K, increasing, of the whole index), flags, v, i_star for little-endian int64 scores; else "overflow".

        w: of all shards, one after the other.
        """

    def respond(
        self,
        key: bytes,
        index: ScoreMatrix,
        columns: list[Committer],
        e: bytes,
        line: tuple[int, int],
        steps: int,
        rhos: list[bytes],
    ) -> Response:
        """As answer, for scores gain (<E_i, e> - lo), line = (lo, gain), and beside it C_y of every shard.

        columns, rhos: of every shard.
        """

    def hints(
        self,
        key: bytes,
        w: bytes,
        steps: int,
        place: tuple[int, int],
        threshold: tuple[int, int],
        returned: list[int],
    ) -> bytes:
        """The hint vector of kernel/noise_statement.py for shard place[0] of place[1] and its scores, packed.

        threshold: v*, i*; returned: 2 id + flag of T's slots, increasing.
        """

@type_check_only
class DecoysSelection(TypedDict):
    ids: list[int]
    flags: list[bool]
    v: int
    i_star: int
    short: bool
    over: bool

@final
class DecoysEngine:
    """The decoys of one class and table: what is drawn, the best others, and what the proof of each shard opens."""

    def __new__(cls, params: dict[str, int], rows: list[bytes]) -> Self:
        """params: N, draws, room, c, chunks, S; rows: F(0) .. F(draws) of the table, 16 big-endian bytes each."""

    def answer(self, key: bytes, y: bytes, lo: int, k: int) -> DecoysSelection:
        """ids (increasing, of the whole index), flags, v, i_star, short, over; else "overflow".

        y: little-endian int64 scores of all shards, one after the other; each has 32 bits, as products of int8 vectors.
        """

    def respond(
        self,
        key: bytes,
        index: ScoreMatrix,
        columns: list[Committer],
        e: bytes,
        lo: int,
        k: int,
        rhos: list[bytes],
    ) -> Response:
        """As answer, for scores <E_i, e>, and beside it C_y of every shard.

        columns, rhos: of every shard.
        """

    def assignment(self, key: bytes, y: bytes, lo: int, k: int, shard: int) -> tuple[bytes, bytes, bytes, int]:
        """Of one shard, for scores of all: m_0 .. m_(N-1), b_1 .. b_N and its hint vector, packed; its number of ids.

        kernel/decoys/statement.py has the order of hints.
        """

def decoys_wires(
    chunks: tuple[int, int], y: bytes, members: bytes, behind: bytes, hints: bytes, beta: bytes
) -> tuple[bytes, bytes]:
    """x and z of a shard's circuit, packed, from its own scores y and what DecoysEngine.assignment gives.

    chunks: c, and chunks of a distance; z is empty if that is one.
    """

@final
class VerifyingKey:
    """A Groth16 verifying key; its IC points are the basis of the commitments that stand for hidden public inputs."""

    @property
    def n_public(self) -> int: ...
    @staticmethod
    def from_bytes(data: bytes) -> VerifyingKey:
        """alpha_1 || beta_2 || gamma_2 || delta_2 || u32be(number of IC points) || IC; every point is checked."""

    def to_bytes(self) -> bytes: ...
    @staticmethod
    def from_json(text: str) -> VerifyingKey:
        """snarkjs' verification_key.json."""

    def to_json(self) -> str: ...
    def digest(self) -> bytes:
        """SHA-256 of to_bytes()."""

    def ic(self, start: int, count: int) -> bytes:
        """IC points [start, start + count); IC 0 belongs to the constant, IC i to public input i - 1."""

    def verify(self, proof: bytes, clear: bytes, commitments: bytes) -> None:
        """Raises unless the proof holds.

        clear: the first public inputs, 32 bytes each; commitments: points of 64 bytes, added to vk_x for the others.
        """

    def verify_batch(
        self, proofs: list[bytes], clears: list[bytes], commitments: list[bytes], scales: list[bytes], weights: bytes
    ) -> None:
        """Raises unless all proofs hold.

        scales: scalars that a proof's points are added with, or none: as they are.  weights: 16 unpredictable bytes for
        each proof, none of them zero.
        """

@final
class Witness:
    """Values of all wires of a circuit; wire 0 is 1."""

    def __len__(self) -> int: ...
    @staticmethod
    def from_bytes(data: builtins.bytes) -> Witness: ...
    def bytes(self) -> builtins.bytes: ...
    def get(self, wire: int) -> builtins.bytes: ...
    def slice(self, start: int, count: int) -> builtins.bytes:
        """Wires [start, start + count), packed."""

    def set(self, wire: int, value: builtins.bytes) -> None: ...
    def to_wtns(self, path: str | PathLike[str]) -> None:
        """Write a .wtns file that only its owner may read."""

    @staticmethod
    def from_wtns(path: str | PathLike[str]) -> Witness: ...

@final
class ProvingKey:
    """A snarkjs .zkey, checked when loaded (SPEC A.9)."""

    @property
    def n_vars(self) -> int: ...
    @property
    def n_public(self) -> int: ...
    @property
    def domain(self) -> int: ...
    @staticmethod
    def load(path: str | PathLike[str]) -> ProvingKey: ...
    def verifying_key(self) -> VerifyingKey: ...
    def prove(self, witness: Witness | str | PathLike[str], r: bytes | None = None, s: bytes | None = None) -> bytes:
        """256 bytes A || B || C, verified against all public inputs before they are returned.

        r, s: blinding scalars for tests; fresh ones from the operating system otherwise.
        """

def setup(
    r1cs_path: str | PathLike[str],
    zkey_path: str | PathLike[str],
    kept: int | None = None,
    entropy: bytes | None = None,
) -> None:
    """Make a one-party Groth16 key (gamma = 1) that snarkjs reads.

    kept: public inputs 1..kept get a row of their own, as the constant does; all of them by default.  The columns of
    the others must be independent by the circuit's rows alone (ragseal.circuits.independence).
    entropy is for tests: it makes forging possible.
    """

@final
class Powers:
    """Powers of tau of a .ptau file, checked: of one tau, alpha and beta, and tau is no root of unity."""

    @staticmethod
    def load(path: str | PathLike[str], domain: int) -> Powers:
        """Read what circuits of up to ``domain`` rows need, a power of two; a larger file costs no more."""

    @property
    def domain(self) -> int: ...
    def digest(self) -> bytes:
        """SHA-256 of what determines them: tau, alpha and beta times the generators."""

    def check_key(self, zkey_path: str | PathLike[str], r1cs_path: str | PathLike[str], kept: int) -> None:
        """Raises unless every point of a key is the one that the circuit, these powers and the key's delta give.

        kept: as in setup.  The key's coefficients are not looked at.
        """

    def initial_key(self, r1cs_path: str | PathLike[str], zkey_path: str | PathLike[str], kept: int) -> None:
        """Write a key with gamma = delta = 1, which snarkjs contributes to and nothing here loads.

        The file must be prepared for phase 2.
        """

def contribute(initial_path: str | PathLike[str], zkey_path: str | PathLike[str]) -> None:
    """Write an initial key with another delta, from the operating system, which is forgotten.

    Refuses a key that has contributions.
    """

def make_powers(path: str | PathLike[str], power: int, entropy: bytes | None = None) -> None:
    """Make a .ptau file for circuits of up to 2^power rows alone, prepared for phase 2, without contributions.

    entropy is for tests: it makes forging possible.
    """

def proof_check(proof: bytes) -> None:
    """The proof is canonical, on its curves and in the subgroup, without identity."""

def proof_to_json(proof: bytes) -> str:
    """snarkjs' proof.json."""

def proof_from_json(text: str) -> bytes: ...
def public_to_json(values: bytes) -> str:
    """snarkjs' public.json of packed scalars."""

def public_from_json(text: str) -> bytes: ...

@final
class R1cs:
    """A circuit in the iden3 .r1cs format; wire 0 is 1, then outputs, public inputs, private inputs."""

    @property
    def n_wires(self) -> int: ...
    @property
    def n_outputs(self) -> int: ...
    @property
    def n_public(self) -> int:
        """Public outputs and public inputs."""

    @property
    def n_private_inputs(self) -> int: ...
    @property
    def n_constraints(self) -> int: ...
    @staticmethod
    def load(path: str | PathLike[str]) -> R1cs: ...
    def constraint(self, row: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]], list[tuple[int, int]]]:
        """A, B, C of a row (A * B = C) as lists of (wire, coefficient)."""

    def solve(self, inputs: bytes) -> Witness:
        """The witness of packed inputs (public, then private, in wire order), found by propagation; not checked.

        Raises NativeError naming rows and wires where the circuit or these inputs leave a wire undetermined.
        """

    def check(self, witness: Witness) -> int | None:
        """The first row that a witness violates."""

    def propagate(self, known: bytes, skip_rows: bytes) -> bytes:
        """One byte (0 or 1) a wire: which wires the known ones determine through rows that are not skipped.

        A row determines its only unknown wire if that occurs linearly with a divisor that is a constant (SPEC
        B.6.6).  Wire 0 is always known.
        """
