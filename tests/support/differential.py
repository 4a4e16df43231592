"""One operator, two runtimes: ONNX Runtime (or a formula in numpy) and our reference evaluator through kvik-eval."""

import os
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

MICROSOFT = "com.microsoft"
# Without VNNI, ONNX Runtime adds pairs of u8 x i8 products in 16 bits, which saturate; two products of this range do not.
INT8_WEIGHTS = (-64, 64)
KVIK_EVAL = pathlib.Path(os.environ.get("KVIK_BINARY_DIR", "build")) / "kvik-eval"


class Case:
    """A model of one node. `inputs` holds arrays or None; those listed in `constants` become initializers."""

    def __init__(self, op, inputs, n_outputs=1, domain=MICROSOFT, constants=(), version=21, unwanted=(), types=None, **attributes):
        inputs = [None if array is None else np.asarray(array) for array in inputs]
        self.inputs, self.op = inputs, op
        names = ["" if array is None else f"x{i}" for i, array in enumerate(inputs)]
        outputs = ["" if i in unwanted else f"y{i}" for i in range(n_outputs)]
        node = helper.make_node(op, names, outputs, domain=domain, **attributes)
        tensors = {name: numpy_helper.from_array(array, name) for name, array in zip(names, inputs) if array is not None}
        fixed = {names[i] for i in constants if i < len(inputs) and inputs[i] is not None}
        self.fed = [name for name in names if name and name not in fixed]
        values = [helper.make_tensor_value_info(name, tensors[name].data_type, tensors[name].dims) for name in self.fed]
        results = [onnx.ValueInfoProto(name=name) for name in outputs if name]
        for i, dtype in (types or {}).items():  # where inference does not tell
            results[i].type.tensor_type.elem_type = dtype
        graph = helper.make_graph([node], op, values, results, [tensors[name] for name in sorted(fixed)])
        imports = [helper.make_opsetid("", version)] + ([helper.make_opsetid(domain, 1)] if domain else [])
        self.model = helper.make_model(graph, opset_imports=imports, ir_version=10)
        self.tensors = tensors

    def run_onnxruntime(self, in_place=None):
        """in_place: output number to the input number whose buffer it shares."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(self.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        by_name = {f"x{i}": array for i, array in enumerate(self.inputs) if array is not None}
        if not in_place:
            return session.run(None, {name: by_name[name] for name in self.fed})
        binding = session.io_binding()
        own = {name: by_name[name].copy() for name in self.fed}  # an OrtValue only points at these
        fed = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in own.items()}
        for name, value in fed.items():
            binding.bind_ortvalue_input(name, value)
        for i, output in enumerate(session.get_outputs()):
            if i in in_place:
                binding.bind_ortvalue_output(output.name, fed[f"x{in_place[i]}"])
            else:
                binding.bind_output(output.name, "cpu")
        session.run_with_iobinding(binding)
        return [value.numpy().copy() for value in binding.get_outputs()]

    def evaluate(self, folder):
        onnx.save(self.model, folder / "model.onnx")
        for i, name in enumerate(self.fed):
            (folder / f"input_{i}.pb").write_bytes(self.tensors[name].SerializeToString())
        return subprocess.run([KVIK_EVAL, folder / "model.onnx", folder, folder / "out"], capture_output=True, text=True)

    def run_kvik(self):
        with tempfile.TemporaryDirectory(prefix="kvik-test-") as folder:
            done = self.evaluate(pathlib.Path(folder))
            assert done.returncode == 0, done.stderr
            files = [pathlib.Path(folder) / "out" / f"output_{i}.pb" for i in range(len(self.model.graph.output))]
            return [numpy_helper.to_array(onnx.load_tensor(file)) for file in files]

    def refusal(self):
        """The sentence with which our evaluator refuses the case."""
        with tempfile.TemporaryDirectory(prefix="kvik-test-") as folder:
            done = self.evaluate(pathlib.Path(folder))
            assert done.returncode == 1, f"{self.op} was expected to be refused"
            return done.stderr


def tolerance_of(array):
    if array.dtype == np.float16:
        return {"rtol": 4e-3, "atol": 2e-3}
    if array.dtype.kind == "f":
        return {"rtol": 1e-4, "atol": 2e-5}
    return {"rtol": 0, "atol": 0}


def assert_same(expected, found, **tolerance):
    assert len(expected) == len(found)
    for i, (wanted, got) in enumerate(zip(expected, found)):
        wanted = np.asarray(wanted)
        assert wanted.dtype == got.dtype and wanted.shape == got.shape, f"output {i}: {got.dtype}{got.shape} for {wanted.dtype}{wanted.shape}"
        limits = {**tolerance_of(wanted), **tolerance} if wanted.dtype.kind == "f" or tolerance else tolerance_of(wanted)
        np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), equal_nan=True, err_msg=f"output {i}", **limits)


def assert_agrees(case, **tolerance):
    """Both runtimes give the same outputs."""
    assert_same(case.run_onnxruntime(), case.run_kvik(), **tolerance)


def assert_gives(case, *expected, **tolerance):
    """Our evaluator gives what a formula says, where ONNX Runtime's CPU provider has no kernel."""
    assert_same(expected, case.run_kvik(), **tolerance)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def random(seed, *shape, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def angles(positions, pairs, dtype=np.float32):
    """Tables of cosines and sines, [positions, pairs]."""
    phase = np.arange(positions)[:, None] / 10000 ** (np.arange(pairs)[None, :] / pairs)
    return np.cos(phase).astype(dtype), np.sin(phase).astype(dtype)
