"""Matrix products, fractal loads and what brings results out of L0C (tik_api.md 1.4 to 1.6, 4.1 #40)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autotune.kernels.davinci.checks import check, check_types
from autotune.kernels.davinci.convolution import Images
from autotune.kernels.davinci.errors import DataTypeError, NotEmulated, RangeError
from autotune.kernels.davinci.expr import Value
from autotune.kernels.davinci.isa import Row
from autotune.kernels.davinci.layouts import Window
from autotune.kernels.davinci.memory import BLOCK, FRACTAL, L0C, L1, SIZES, UB
from autotune.kernels.davinci.moves import CUBE_FRACTAL, per_block
from autotune.kernels.davinci.program import Access
from autotune.kernels.davinci.rows_cube import CONV2D_ROW, GAP_LOAD_ROWS, LOAD_ROWS, MATMUL_ROW, MMAD_ROW
from autotune.kernels.davinci.rows_moves import FIXPIPE_ROWS
from autotune.kernels.davinci.tensor import Tensor, row_major

FIXPIPE_MODES = {"fp322fp16": ("float16", "float32"), "int322fp16": ("float16", "int32")}
"""fixpipe's quantize_params modes to the types they convert (tik_api.md 4.1 #40)."""


def _tiles(length: Value, size: int = 16) -> Value:
    return (length + size - 1) // size


def _dense(tensor: Tensor, *shape: Value) -> Access:
    return tensor.pattern(shape, row_major(shape))


class Cube(Images):
    """The cube unit and what feeds it."""

    def matmul(
        self, dst: Tensor, a: Tensor, b: Tensor, m: Any, k: Any, n: Any, init_l1out: bool = True, bias: Any = None
    ) -> None:
        """dst [N1, M, 16] in L0C from a [K1, M, K0] and b [K1, N, K0] in L1; k is exact.

        M and N are m and n rounded up to 16: rows and columns beyond m and n come of what the operands hold there.
        """
        if bias is not None:
            raise NotEmulated("matmul", "bias")
        check(MATMUL_ROW, self.program.soc, dst, a, b)
        k0 = per_block(a)
        rows, depth, columns = (
            self.number(*args) for args in (("m", m, 1, 4096), ("k", k, 1, 1024 * k0), ("n", n, 1, 4096))
        )
        m1, k1, n1 = _tiles(rows), _tiles(depth, k0), _tiles(columns)
        for tensor in (dst, a, b):
            self.aligned(tensor)
        target = _dense(dst, n1, m1 * 16, 16)
        operands = (_dense(a, k1, m1 * 16, k0), _dense(b, k1, n1 * 16, k0))
        self._product(MATMUL_ROW, target, operands, bool(init_l1out), (depth,))

    def mmad(
        self,
        dst_fm: Tensor,
        src_fm: Tensor,
        src_filter: Tensor,
        matrix_m: Any,
        matrix_k: Any,
        matrix_n: Any,
        is_bias: Any,
        fm_offset: int = 0,
        en_weight_offset: bool = False,
        smask: Any = None,
        **options: Any,
    ) -> None:
        """L0C zN from L0A zZ and L0B nZ; is_bias adds to what L0C holds. The k tail is masked.

        m = 1 is computed like any other m, from L0A in zZ, as the vendor's debugger does.
        """
        if fm_offset or en_weight_offset or smask is not None or any(options.values()):
            raise NotEmulated(
                "mmad", "fm_offset, en_weight_offset, smask and the modes for few channels or sparse data"
            )
        check(MMAD_ROW, self.program.soc, dst_fm, src_fm, src_filter)
        k0 = per_block(src_fm)
        rows, depth, columns = (
            self.number(name, value, 0, 4095) for name, value in (("m", matrix_m), ("k", matrix_k), ("n", matrix_n))
        )
        m1, k1, n1 = _tiles(rows), _tiles(depth, k0), _tiles(columns)
        for tensor in (dst_fm, src_fm, src_filter):
            self.aligned(tensor)
        target = _dense(dst_fm, n1, m1 * 16, 16)
        operands = (_dense(src_fm, m1, k1, 16, k0), _dense(src_filter, k1, n1, 16, k0))
        self._product(MMAD_ROW, target, operands, not is_bias, (depth,))

    def conv2d(
        self,
        dst: Tensor,
        feature_map: Tensor,
        weight: Tensor,
        fm_shape: Sequence[int],
        kernel_shape: Sequence[int],
        stride: Sequence[int],
        pad: Sequence[int],
        dilation: Sequence[int],
        pad_value: Any = 0,
        init_l1out: bool = True,
        bias: Any = None,
    ) -> None:
        """dst [Cout / 16, positions, 16] in L0C from an image [C1, H, W, C0] and weight [C1, Kh, Kw, Cout, C0] in L1.

        stride and dilation: height, width. pad: left, right, top, bottom. Positions are rounded up to 16.
        """
        if bias is not None:
            raise NotEmulated("conv2d", "bias")
        check(CONV2D_ROW, self.program.soc, dst, feature_map, weight)
        k0 = per_block(feature_map)
        (c1, height, width, c0), (depth, filter_h, filter_w, out, _) = fm_shape, kernel_shape
        if c0 != k0 or depth != c1 or out % 16:
            raise RangeError(f"conv2d: {list(fm_shape)} and {list(kernel_shape)} do not fit: C1 and C0 = {k0} agree, "
                             "Cout is a multiple of 16", self.where())  # fmt: skip
        left, right, top, bottom = self.padding("conv2d", pad)
        window = Window(
            width, height, left, right, top, bottom, filter_w, filter_h, stride[1], stride[0], dilation[1], dilation[0]
        )
        if window.rows < 1 or window.columns < 1:
            raise RangeError(f"conv2d: the filter {filter_h} x {filter_w} is larger than the image", self.where())
        for tensor in (dst, feature_map, weight):
            self.aligned(tensor)
        positions = _tiles(window.rows * window.columns) * 16
        target = _dense(dst, out // 16, positions, 16)
        operands = (_dense(weight, c1 * filter_h * filter_w, out, c0), _dense(feature_map, c1, height, width, c0))
        value = self.operand_value("conv2d", pad_value, feature_map.dtype)
        self._product(CONV2D_ROW, target, operands, bool(init_l1out), (positions, value, *vars(window).values()))

    def _product(
        self, row: Row, target: Access, operands: tuple[Access, Access], fresh: bool, immediates: tuple[Any, ...]
    ) -> None:
        if fresh:
            self.instruction(row, (target,), operands, (None, *immediates))
        else:
            self.instruction(row, (target,), (*operands, target), immediates)

    def load2dv1(
        self,
        dst: Tensor,
        src: Tensor,
        index: Any,
        repeat_times: Any,
        src_stride: Any,
        sid: Any,
        if_transpose: bool = False,
        addr_mode: Any = None,
    ) -> None:
        """Loads 512-byte fractals, one every src_stride fractals of the source, packed into the destination."""
        self._load2d("load2dv1", LOAD_ROWS, dst, src, index, repeat_times, 0, src_stride, if_transpose, addr_mode)

    def load2dv2(
        self,
        dst: Tensor,
        src: Tensor,
        start_index: Any,
        repeat_times: Any,
        dst_gap: Any,
        src_stride: Any,
        sid: Any,
        if_transpose: bool = False,
        addr_mode: Any = None,
    ) -> None:
        """load2dv1 with dst_gap fractals between those it writes (not on 310 and 910A)."""
        self._load2d(
            "load2dv2", GAP_LOAD_ROWS, dst, src, start_index, repeat_times, dst_gap, src_stride, if_transpose, addr_mode
        )

    def _load2d(
        self, api: str, rows: Mapping[tuple[str, str], Row], dst: Tensor, src: Tensor, index: Any, repeat_times: Any,
        dst_gap: Any, src_stride: Any, if_transpose: bool, addr_mode: Any,
    ) -> None:  # fmt: skip
        row = self.route(api, rows, src, dst)
        if addr_mode:
            raise NotEmulated(api, f"addr_mode {addr_mode}: addresses that run backwards")
        check_types(row, self.program.soc, (dst.dtype, src.dtype))
        size = SIZES[src.dtype]
        if if_transpose and (size != 2 or src.scope != L1 or dst.scope == L1):
            raise DataTypeError(f"{api} transposes 16-bit fractals from L1 to L0A or L0B only", self.where())
        repeat = self.number("repeat_times", repeat_times, 1, 255)
        stride = self.number("src_stride", src_stride, 0, 65535)
        gap = self.number("dst_gap", dst_gap, 0, 65535)
        elements = FRACTAL // size
        skip = self.number("index", index, 0, 65535) * elements
        self.aligned(dst)
        self.aligned(src)
        shape = (repeat, 16, elements // 16)
        inner = (1, 16) if if_transpose else (elements // 16, 1)
        self.instruction(
            row,
            (dst.pattern(shape, ((gap + 1) * elements, elements // 16, 1)),),
            (src.pattern(shape, (stride * elements, *inner), skip),),
        )

    def fixpipe(
        self,
        dst: Tensor,
        src: Tensor,
        cburst_num: Any,
        burst_len: Any,
        dst_stride: Any,
        src_stride: Any,
        extend_params: Mapping[str, Any] | None = None,
    ) -> None:
        """[N1, m, 16] of a product [N1, M, 16] in L0C to GM or UB: rows beyond m are dropped.

        burst_len: 32-byte blocks of one of N1 in L0C's type. extend_params: bias (a tensor of N1 * 16 in L1 or UB),
        quantize_params ({"mode": "fp322fp16"} or {"mode": "int322fp16", "mode_param": scale}), relu.
        """
        options = dict(extend_params or {})
        bias, quantized, relu = (
            options.pop("bias", None),
            options.pop("quantize_params", None),
            options.pop("relu", False),
        )
        if options:
            raise NotEmulated("fixpipe", f"extend_params {', '.join(map(str, options))}")
        row = self.route("fixpipe", {(L0C, scope): row for scope, row in FIXPIPE_ROWS.items()}, src, dst)
        count = self.number("cburst_num", cburst_num, 1, 4095)
        length = self.number("burst_len", burst_len, 1, 65535)
        gap = self.number("dst_stride", dst_stride, 0, 65535) * per_block(dst)
        self.number("src_stride", src_stride, 0, 0)
        self._quantized(dst, src, quantized or {})
        scale = self.dequantised(row, dst, src, (quantized or {}).get("mode_param"))
        rows = length * BLOCK // SIZES[src.dtype] // 16
        self.aligned(dst)
        self.aligned(src)
        shape = (count, rows, 16)
        sources = [src.pattern(shape, (_tiles(rows) * CUBE_FRACTAL, 16, 1))]
        if bias is not None:
            self.in_scope("fixpipe", (L1, UB), bias)
            self.same_dtype("fixpipe", src, bias)
            sources.append(bias.pattern((count, 1, 16), (16, 16, 1)))
        target = dst.pattern(shape, (rows * 16 + gap, 16, 1))
        self.instruction(row, (target,), tuple(sources), (scale, bool(relu)))

    def _quantized(self, dst: Tensor, src: Tensor, quantized: Mapping[str, Any]) -> None:
        """Raises DataTypeError where the types are not those of the mode."""
        mode = quantized.get("mode")
        if mode is not None and mode not in FIXPIPE_MODES:
            raise NotEmulated("fixpipe", f"quantize_params mode {mode!r}")
        if (dst.dtype, src.dtype) != FIXPIPE_MODES.get(mode or "", (src.dtype, src.dtype)):
            raise DataTypeError(
                f"fixpipe: {src.dtype} to {dst.dtype} with quantize_params mode {mode!r}; fp322fp16 and int322fp16 "
                "convert to float16, without a mode the types agree", self.where(),
            )  # fmt: skip
