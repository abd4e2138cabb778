"""The calls that public TIK kernels use, by how often (tik_api.md 4.1), as data."""

from __future__ import annotations

from dataclasses import dataclass

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


@dataclass(frozen=True)
class Entry:
    """One line of the list. priority: P0 is in most kernels, P4 is specialised."""

    number: int
    priority: str
    calls: tuple[str, ...]


def _entry(number: int, priority: str, calls: str) -> Entry:
    return Entry(number, priority, tuple(calls.split()))


def _each(prefix: str, names: tuple[str, ...] = _COMPARISONS) -> str:
    return " ".join(f"{prefix}{name}" for name in names)


ENTRIES = (
    _entry(1, "P0", "Tensor"),
    _entry(2, "P0", "Scalar"),
    _entry(3, "P0", "if_scope else_scope elif_scope"),
    _entry(4, "P0", "for_range"),
    _entry(5, "P0", "data_move"),
    _entry(6, "P0", "vector_dup"),
    _entry(7, "P0", "new_stmt_scope"),
    _entry(8, "P1", "vmuls vadds"),
    _entry(9, "P1", "vconv"),
    _entry(10, "P1", "vadd vmul vsub vmax vmin vdiv vor vand vmla vmadd"),
    _entry(11, "P0", "tik.all tik.any tik.negate"),
    _entry(12, "P0", "vec_dup"),
    _entry(13, "P0", "BuildCCE tik.Tik"),
    _entry(14, "P1", "vnchwconv"),
    _entry(15, "P1", "vec_conv"),
    _entry(16, "P0", "set_atomic_add"),
    _entry(17, "P1", "vec_muls vec_adds"),
    _entry(18, "P0", "vec_add vec_mul vec_sub vec_max vec_min vec_and vec_or"),
    _entry(19, "P1", "tik.Dprofile"),
    _entry(20, "P3", "vconcat vextract"),
    _entry(21, "P2", "vsel vec_sel"),
    _entry(22, "P3", "vreduce vreducev2"),
    _entry(23, "P2", "ScalarArray"),
    _entry(24, "P0", "tensor_mov"),
    _entry(25, "P2", "vcadd vcmax vcmin"),
    _entry(26, "P2", "vcgadd vcgmax vcgmin vcpadd"),
    _entry(27, "P4", "vmrgsort4 vrpsort16 vsort32"),
    _entry(28, "P3", "load3dv1"),
    _entry(29, "P1", "vrec vexp vabs vln vsqrt vrelu vnot vrsqrt"),
    _entry(30, "P0", "vec_exp vec_rec vec_abs vec_ln vec_rsqrt vec_relu vec_not"),
    _entry(31, "P0", "vec_rec_high_preci vec_rsqrt_high_preci vec_ln_high_preci vec_expm1_high_preci"),
    _entry(
        32, "P0",
        "h_sub h_mul h_add h_div h_cast h_max h_min h_duplicate h_exp h_ln h_reduce_max h_reduce_min h_reduce_sum "
        "h_data_move h_cmpv h_sel",
    ),
    _entry(33, "P2", "mov_tensor_to_cmpmask mov_cmpmask_to_tensor"),
    _entry(
        34, "P2",
        "scalar_max scalar_min scalar_conv scalar_abs scalar_sqrt scalar_countbit0 scalar_countbit1 "
        "scalar_countleading0",
    ),
    _entry(35, "P0", "mmad load2dv1 load2dv2"),
    _entry(36, "P2", f"{_each('vcmpv_')} {_each('vcmp_')} {_each('vec_cmpv_')}"),
    _entry(37, "P2", "vec_reduce_add vec_reduce_max vec_reduce_min"),
    _entry(38, "P0", "vtranspose vec_trans vec_trans_scatter"),
    _entry(39, "P3", "viou vaadd v4dtrans vgather data_move_pad block_barrier vaxpy"),
    _entry(40, "P0", "matmul fixpipe conv2d"),
    _entry(41, "P0", "broadcast_ub_to_l0c tik_break tik_continue tikdb.start_debug printf InputScalar"),
)  # fmt: skip
