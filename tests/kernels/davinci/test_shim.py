"""The toolkit's module names on the emulated core (tik_api.md 3.1)."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotune.kernels.davinci import soc as chips
from tests.kernels.davinci.running import Kernel, values

ROOT = Path(__file__).parents[3]


def named(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


IMPORTS = [
    ("te", "tik"), ("tbe", "tik"), ("te", "platform"), ("te.platform", "cce_conf"), ("te.platform", "cce_params"),
    ("te.platform", "cce_build"), ("te.platform.fusion_manager", "fusion_manager"), ("te.utils", "para_check"),
    ("te.utils", "op_utils"), ("te.utils.op_utils", "check_op_params"), ("te.utils", "shape_util"),
    ("te.utils", "error_manager"), ("te.utils.error_manager", "error_manager_vector"),
    ("te.tik.common.util", "DTYPE_SIZE"), ("te.tik.common.util", "ceil_div"), ("te.tik.common.util", "reduce_mul"),
    ("te.platform.cce_conf", "CceProductParams"), ("te.platform.cce_conf", "te_set_l2_mode"),
    ("te.platform.cce_conf", "te_set_version"), ("te.platform.cce_conf", "getValue"),
    ("te.platform.cce_conf", "api_check_support"), ("te.platform.cce_conf", "intrinsic_check_support"),
    ("te.platform.cce_params", "BLOCK_REDUCE"), ("te.platform.cce_params", "scope_ubuf"),
    ("tbe.common.platform", "set_current_compile_soc_info"), ("tbe.common.platform", "get_bit_len"),
    ("tbe.common.platform", "get_cube_mkn"), ("tbe.common.platform", "get_block_size"),
    ("tbe.common.platform.platform_info", "get_soc_spec"), ("tbe.common.utils", "para_check"),
    ("tbe.common.utils", "shape_util"), ("tbe.common.utils", "errormgr"),
    ("tbe.common.utils.errormgr", "error_manager_vector"), ("tbe.common.register", "register_operator"),
    ("tbe.common.register", "register_op_compute"), ("tbe.common.context", "get_context"),
    ("tbe.tvm.topi.cce", "util"), ("topi.cce", "util"), ("topi.cce.util", "VERSION_CLOUD"),
    ("impl.util.platform_adapter", "tik"), ("impl.util.platform_adapter", "tbe_platform"),
    ("impl.util.platform_adapter", "para_check"), ("impl.util.platform_adapter", "register_operator"),
    ("impl.util.platform_adapter", "tbe_context"), ("impl.util.platform_adapter", "error_manager_vector"),
    ("impl.util.platform_adapter", "shape_util"), ("impl.util.platform_adapter", "operation"),
    ("impl.util.util_select_op_base", "gen_param"), ("impl.util", "util_select_op_base"), ("impl", "common_util"),
    ("impl", "constant_util"), ("impl.constant_util", "DATA_TYPE_FP16"), ("te.op", "register_operator"),
    ("te.lang", "dynamic"), ("tbe.tik", "InputScalar"),
]  # fmt: skip


@pytest.mark.parametrize(("module", "name"), IMPORTS)
def test_names_that_public_kernels_import(module: str, name: str) -> None:
    assert named(module, name) is not None


def test_a_name_that_is_not_emulated_fails_at_its_import() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("tbe.no_such_module")
    with pytest.raises(AttributeError):
        named("te.platform", "no_such_name")


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("te.lang.cce", "matmul"), ("te.tvm", "target"), ("tbe.tvm", "compute"), ("tbe.dsl", "build"),
        ("topi.generic", "auto_schedule"), ("tbe.tvm.topi.generic", "auto_schedule"),
        ("te.platform.cce_build", "build_config"),
    ],
)  # fmt: skip
def test_the_compilers_other_language_is_imported_and_not_emulated(module: str, name: str) -> None:
    call = named(module, name)
    with pytest.raises(NotImplementedError, match=name):
        call()
    with pytest.raises(NotImplementedError, match=f"{name}.further"):
        call.further(1)


def test_an_operand_is_described_before_the_language_is_chosen() -> None:
    found = named("te", "tvm").placeholder((2, 3), name="x", dtype="float16")
    assert (found.shape, found.dtype, found.name) == ((2, 3), "float16", "x")


# The chip.


def test_keys_are_plain_strings_that_get_soc_spec_answers() -> None:
    platform = importlib.import_module("te.platform")
    assert platform.set_current_compile_soc_info("Ascend910A", aicore_num=8) == "success"
    assert platform.CORE_NUM == "CORE_NUM"
    assert platform.get_soc_spec(platform.CORE_NUM) == 8
    assert platform.cce_conf.get_soc_spec(platform.cce_conf.UB_SIZE) == 262144
    assert platform.cce_conf.getValue("Unified_Buffer") == 262144
    assert platform.cce_conf.CceProductParams().getParams("L1_Buffer") == 1048576


def test_chips_that_are_not_there_are_an_error() -> None:
    platform = importlib.import_module("tbe.common.platform")
    for wrong in (("Ascend1",), ("Ascend910A", "VectorCore"), ("Ascend910A", "AiCore", 33)):
        assert platform.set_current_compile_soc_info(*wrong) == "error"
    with pytest.raises(RuntimeError, match="Ascend1"):
        platform.te_set_version("Ascend1")


@pytest.mark.parametrize("name", ["te_set_version", "te_update_version"])
def test_the_old_forms_choose_chip_and_cores(name: str) -> None:
    named("te.platform", name)("Ascend310P3", core_type="VectorCore", aicore_num=3)
    assert (chips.Current.soc.core_type, chips.Current.soc.cores) == ("VectorCore", 3)
    named("te.platform.cce_conf", name)("Ascend910A")
    assert (chips.Current.soc.name, chips.Current.soc.cores) == ("Ascend910A", 32)


def test_sizes_of_types() -> None:
    platform = importlib.import_module("tbe.common.platform")
    sizes = {"int8": 8, "float16": 16, "float32": 32, "uint64": 64}
    assert {dtype: platform.get_bit_len(dtype) for dtype in sizes} == sizes
    assert {dtype: 8 * named("te.tik.common.util", "DTYPE_SIZE")[dtype] for dtype in sizes} == sizes
    assert platform.get_block_size() == 32
    assert platform.get_cube_mkn("int8") == [16, 32, 16]
    with pytest.raises(RuntimeError, match="float8"):
        platform.get_bit_len("float8")


def test_shape_helpers() -> None:
    assert named("te.tik.common.util", "ceil_div")(33, 16) == 3
    assert named("te.tik.common.util", "reduce_mul")((2, 3, 4)) == 24
    shapes = importlib.import_module("tbe.common.utils.shape_util")
    assert shapes.axis_check(4, -1) == 3
    assert shapes.axis_check(4, [-1, 0]) == [0, 3]
    assert shapes.broadcast_shapes([3, 1], [2, 1, 5]) == ([1, 3, 1], [2, 1, 5], [2, 3, 5])
    with pytest.raises(RuntimeError, match="broadcast"):
        shapes.broadcast_shapes([3], [2])
    with pytest.raises(RuntimeError, match="axis 4"):
        shapes.axis_check(4, 4)


SUPPORT = [
    ("Ascend910A", "tik.vadd", "float16", True),
    ("Ascend910A", "tik.vadd", "int8", False),
    ("Ascend910A", "tik.vcmax", "float32", False),
    ("Ascend910B1", "tik.vcmax", "float32", True),
    ("Ascend310", "tik.vdiv", "float32", False),
    ("Ascend910A", "tik.vgatherb", "float16", False),
    ("Ascend910A", "tik.data_move_pad", "", False),
    ("Ascend910B1", "tik.data_move_pad", "float16", True),
    ("Ascend910A", "tik.load3dv1", "float16", True),
    ("Ascend910B1", "tik.load3dv1", "float16", False),
    ("Ascend910A", "tik.set_atomic_add", "float32", True),
    ("Ascend910A", "tik.set_atomic_add", "float16", False),
    ("Ascend310P3", "tik.set_atomic_add", "float16", True),
    ("Ascend310", "tik.set_atomic_add", "float32", False),
    ("Ascend910A", "tik.v4dtrans", "float16", True),
    ("Ascend910A", "tik.vec_trans_scatter", "float32", False),
    ("Ascend910B1", "tik.vec_trans_scatter", "float32", True),
    ("Ascend910A", "tik.no_such_call", "", False),
]


@pytest.mark.parametrize(("soc", "api", "dtype", "expected"), SUPPORT)
def test_api_check_support(soc: str, api: str, dtype: str, expected: bool) -> None:
    chips.use(soc)
    assert named("tbe.common.platform", "api_check_support")(api, dtype) is expected
    assert named("te.platform.cce_conf", "api_check_support")(api, dtype) is expected


INTRINSICS = [
    ("Ascend910A", "Intrinsic_exp", "float32", True),
    ("Ascend310", "Intrinsic_exp", "float32", False),
    ("Ascend910A", "Intrinsic_vconv", "f322s32r", True),
    ("Ascend910A", "Intrinsic_data_move_l12ub", "", True),
    ("Ascend910B1", "Intrinsic_data_move_l12ub", "", False),
    ("Ascend910A", "Intrinsic_vnchwconv", "float16", True),
]


@pytest.mark.parametrize(("soc", "intrinsic", "dtype", "expected"), INTRINSICS)
def test_intrinsic_check_support(soc: str, intrinsic: str, dtype: str, expected: bool) -> None:
    chips.use(soc)
    assert named("tbe.common.platform", "intrinsic_check_support")(intrinsic, dtype) is expected


@pytest.mark.parametrize(("soc", "product"), [("Ascend310", "VERSION_MINI"), ("Ascend910A", "VERSION_CLOUD")])
def test_product_versions(soc: str, product: str) -> None:
    util = importlib.import_module("topi.cce.util")
    chips.use(soc)
    assert util.get_product_version() == getattr(util, product)
    assert util.is_mini_version() == (soc == "Ascend310")


# Checks.


def test_check_op_params_lets_good_parameters_through() -> None:
    para_check = importlib.import_module("te.utils.para_check")
    kinds = ("REQUIRED_INPUT", "OPTION_INPUT", "REQUIRED_OUTPUT", "REQUIRED_ATTR_INT", "OPTION_ATTR_LIST_INT")

    def operator(
        x: Any, bias: Any, y: Any, axis: int, sizes: Any = None, kernel_name: str = "operator"
    ) -> tuple[Any, ...]:
        return x["shape"], axis, kernel_name

    decorate = para_check.check_op_params(*(getattr(para_check, kind) for kind in kinds), para_check.KERNEL_NAME)
    operator = decorate(operator)
    assert operator({"shape": (1,)}, None, {}, 3, None, "name") == ((1,), 3, "name")
    assert operator({"shape": (1,)}, None, {}, 3, kernel_name="name") == ((1,), 3, "name")
    assert operator.__name__ == "operator"
    refused: list[tuple[Any, ...]] = [(None, None, {}, 3), ({}, None, {}, "3"), ({}, None, {}, 3, 4), ({}, 1, {}, 3)]
    for wrong in refused:
        with pytest.raises(RuntimeError, match="operator: parameter"):
            operator(*wrong)
    with pytest.raises(RuntimeError, match="0 name"):
        operator({"shape": (1,)}, None, {}, 3, kernel_name="0 name")


def test_check_input_type_checks_python_types() -> None:
    @named("topi.cce.util", "check_input_type")(dict, (list, tuple), str)  # type: ignore[untyped-decorator]
    def operator(x: Any, sizes: Any, kernel_name: str = "op") -> int:
        return len(sizes)

    assert operator({}, [1, 2]) == 2
    assert operator({}, (1,), "name") == 1
    with pytest.raises(RuntimeError, match="parameter 1"):
        operator({}, 3)


def test_shapes_types_and_names_are_checked() -> None:
    para_check = importlib.import_module("tbe.common.utils.para_check")
    para_check.check_shape((2, 3), param_name="x")
    para_check.check_shape([1] * 8)
    para_check.check_shape([-1, 4])
    para_check.check_dtype("Float16", ("float16",))
    para_check.check_kernel_name("good_name")
    para_check.check_format("ND", ("ND", "NZ"))
    assert para_check.check_shape_size((4, 5), 20) == 20
    wrong: list[tuple[str, tuple[Any, ...]]] = [
        ("check_shape", ([1] * 9,)),
        ("check_shape", ([],)),
        ("check_shape", ((2, -3),)),
        ("check_shape", (5,)),
        ("check_shape_rule", ((0, 2),)),
        ("check_shape_size", ((4, 5), 19)),
        ("check_dtype", ("int8", ("float16",))),
        ("check_format", ("HWCN", ("ND",))),
        ("check_kernel_name", ("bad-name",)),
    ]
    for name, arguments in wrong:
        with pytest.raises(RuntimeError):
            getattr(para_check, name)(*arguments)


def test_reports_are_runtime_errors_that_name_operator_and_parameter() -> None:
    report = importlib.import_module("impl.util.platform_adapter").error_manager_vector
    with pytest.raises(RuntimeError, match="my_op: parameter axis should be 0 or 1, not 7"):
        report.raise_err_input_value_invalid("my_op", "axis", "0 or 1", 7)
    with pytest.raises(RuntimeError, match="my_op: no such mode"):
        report.raise_err_specific_reson("my_op", "no such mode")
    details = {"errCode": "E80000", "op_name": "my_op"}
    assert "my_op" in named("te.utils.error_manager", "get_error_message")(details)


def test_decorators_hand_back_the_operator() -> None:
    def operator() -> int:
        return 7

    fusion = named("te.platform.fusion_manager", "fusion_manager")
    for decorate in (
        fusion.register("op"),
        named("tbe.common.register", "register_operator")("Op"),
        named("tbe.common.register", "register_op_compute")("Op", op_mode="dynamic", support_fusion=True),
        named("impl.util.platform_adapter", "register_operator")("Op"),
    ):
        assert decorate(operator) is operator


def test_the_context_keeps_what_the_tiling_needs() -> None:
    context = named("impl.util.platform_adapter", "tbe_context").get_context()
    context.add_compile_info("vars", {"ub_size": 5})
    assert context.get_compile_info()["vars"] == {"ub_size": 5}


def test_operands_are_described_as_json() -> None:
    select = importlib.import_module("impl.util.util_select_op_base")
    x = select.gen_param("input0", "x", "float16,float32", "ND,ND")
    y = select.gen_param("output0", "y", "float16,float32", "ND,ND", "ND,ND")
    assert json.loads(select.get_dynamic_param_in_json([x, y])) == {
        "input0": {"name": "x", "dtype": "float16,float32", "format": "ND,ND"},
        "output0": {"name": "y", "dtype": "float16,float32", "format": "ND,ND", "unknownshape_format": "ND,ND"},
    }


def test_constants_of_operators() -> None:
    constants = importlib.import_module("impl.constant_util")
    assert (constants.DATA_TYPE_FP16, constants.DATA_TYPE_UINT8) == ("float16", "uint8")
    assert (constants.BLOCK_SIZE, constants.VECTOR_BYTE_SIZE, constants.MASK128) == (32, 256, 128)
    common = importlib.import_module("impl.common_util")
    assert (common.get_data_size("int64"), common.get_block_element("float16")) == (8, 16)


@pytest.mark.parametrize("count", [5, 16, 37])
def test_move_out_non32_alignment_keeps_its_neighbours(count: int) -> None:
    source, before = values("float16", 64, 1), values("float16", 128, 2)
    kernel = Kernel()
    target, out = kernel.given(before.copy()), kernel.filled(source)
    kernel.result("int32", (8,))
    named("impl.common_util", "move_out_non32_alignment")(
        {"instance": kernel.tik, "out_ub": out, "out_gm": target, "gm_offset": 40, "element_num": count, "dsize": 2}
    )
    kernel.run()
    expected = before.copy()
    expected[40 : 40 + count] = source[:count]
    np.testing.assert_array_equal(kernel.feed[target.name], expected)


@pytest.mark.parametrize(("name", "unit"), [("get_vector_repeat_times", 256), ("get_datamove_nburst", 32)])
@pytest.mark.parametrize("size", [1, 31, 32, 256, 257])
def test_counts_of_repeats_and_blocks_are_rounded_up(name: str, unit: int, size: int) -> None:
    kernel = Kernel()
    result = kernel.filled(np.zeros(8, np.int32))
    total = kernel.tik.Scalar("int32", "total", size)
    result[0].set_as(named("impl.common_util", name)(kernel.tik, total))
    kernel.shown(result)
    assert kernel.run()[0][0] == -(-size // unit)


# Beside a real toolkit.


def run_beside(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Python with the folder in front of its path."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


def test_a_real_toolkit_is_never_shadowed(tmp_path: Path) -> None:
    (tmp_path / "te").mkdir()
    (tmp_path / "te" / "__init__.py").write_text("")
    done = run_beside(tmp_path, "from autotune.kernels import davinci; davinci.install()")
    assert done.returncode == 1
    assert "a real te package is installed" in done.stderr


def test_a_folder_called_impl_stays_importable_and_a_real_package_is_kept(tmp_path: Path) -> None:
    (tmp_path / "impl").mkdir()
    (tmp_path / "impl" / "mine.py").write_text("from impl import constant_util\nSIZE = constant_util.BLOCK_SIZE\n")
    (tmp_path / "topi").mkdir()
    (tmp_path / "topi" / "__init__.py").write_text("REAL = True\n")
    code = (
        "from autotune.kernels import davinci; davinci.install(); davinci.install()\n"
        "import topi; from impl import mine; from tbe.tvm.topi.cce import util\n"
        "print(mine.SIZE, topi.REAL)"
    )
    done = run_beside(tmp_path, code)
    assert (done.stdout, done.returncode) == ("32 True\n", 0), done.stderr
