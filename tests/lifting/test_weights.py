"""Arguments that lie in the sidecar are loaded by their paths."""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np

import untrace


def predict(params, x):
    return jnp.tanh(x @ params["dense"]["kernel"]) + params["bias"]


def test_saved_file_loads_the_weights_that_it_was_made_with(tmp_path, monkeypatch):
    monkeypatch.setattr(predict, "__untrace_weights__", ("params",), raising=False)
    kernel = np.linspace(0, 1, 6, dtype=np.float32).reshape(3, 2)
    bias = jnp.array([1.0, 2.0], jnp.bfloat16)
    params = {"dense": {"kernel": kernel}, "bias": bias}
    source = untrace.source(predict)(params, jnp.ones((4, 3)))
    assert source.report.is_verified
    assert sorted(source.module.stored) == ["params.bias", "params.dense.kernel"]
    path = source.save(tmp_path / "saved.py")
    spec = importlib.util.spec_from_file_location("saved", path)
    saved = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(saved)
    loaded = saved.load_weights()["params"]
    assert jax.tree.all(jax.tree.map(np.array_equal, loaded, params))
    assert loaded["bias"].dtype == jnp.bfloat16
    assert saved.predict(**saved.example_args()).shape == (4, 2)
