"""Saving, loading and checking files; nothing half-written, nothing silently wrong."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.saved import verify_file

WEIGHTS = np.random.default_rng(0).normal(size=(20, 30)).astype(np.float32)
HALF = jnp.asarray(WEIGHTS[:10], jnp.bfloat16)


def layer(x):
    return jnp.tanh(x @ WEIGHTS), x[:10] * HALF.sum()


def small(x):
    return jnp.sin(x) * 2.0


@pytest.fixture
def saved(tmp_path):
    src = untrace.source(layer)(jnp.ones(20))
    assert src.report.strength == "identical"
    return src.save(tmp_path / "layer.py")


def _run(path):
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True)


def test_a_file_runs_in_a_fresh_process_with_its_sidecar(saved):
    assert saved.with_suffix(".safetensors").exists()
    done = _run(saved)
    assert done.returncode == 0, done.stderr
    assert "Array" in done.stdout


def test_a_file_needs_neither_untrace_nor_safetensors(saved):
    text = saved.read_text()
    assert "import untrace" not in text and "import safetensors" not in text


def test_a_saved_file_verifies(saved):
    assert verify_file(saved).is_verified


def test_headers_of_long_names_are_read(tmp_path):
    def negative_log_likelihood_of_all_sensors_over_the_last_thousand_days(x):
        return jnp.log(-jnp.exp(x))

    function = negative_log_likelihood_of_all_sensors_over_the_last_thousand_days
    path = untrace.source(function)(1.0).save(tmp_path / "saved.py")
    assert verify_file(path).is_verified
    path = untrace.reduce(path, keep="nan()").save(tmp_path / "repro.py")
    with pytest.raises(untrace.LoadError, match="shows a failure"):
        verify_file(path)


def test_small_programs_need_no_sidecar(tmp_path):
    path = untrace.source(small)(jnp.ones(3)).save(tmp_path / "small.py")
    assert os.listdir(tmp_path) == ["small.py"]
    assert verify_file(path).is_verified
    assert _run(path).returncode == 0


def test_an_edited_file_is_a_difference(tmp_path):
    path = untrace.source(small)(jnp.ones(3)).save(tmp_path / "small.py")
    path.write_text(path.read_text().replace("* 2.0", "* 3.0"))
    verdict = verify_file(path)
    assert not verdict.is_verified and "edited" in str(verdict)


def test_a_missing_sidecar_is_named(saved):
    saved.with_suffix(".safetensors").unlink()
    with pytest.raises(untrace.LoadError, match="layer.safetensors"):
        verify_file(saved)
    assert "layer.safetensors" in _run(saved).stderr


def test_an_altered_sidecar_is_refused(saved):
    sidecar = saved.with_suffix(".safetensors")
    raw = bytearray(sidecar.read_bytes())
    raw[-1] ^= 1
    sidecar.write_bytes(raw)
    with pytest.raises(untrace.LoadError, match="layer.safetensors"):
        verify_file(saved)


def test_a_foreign_file_is_refused(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("raise SystemExit('was executed')\n")
    with pytest.raises(untrace.LoadError, match="no fingerprint"):
        verify_file(path)


def test_an_unwritable_place_leaves_nothing_behind(tmp_path):
    src = untrace.source(layer)(jnp.ones(20))
    with pytest.raises(untrace.SaveError, match="cannot write"):
        src.save(tmp_path / "no" / "such" / "folder" / "layer.py")
    target = tmp_path / "taken.py"
    target.mkdir()
    with pytest.raises(untrace.SaveError):
        src.save(target)
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == []


def test_load_gives_the_function(saved):
    src = untrace.source(layer)(jnp.ones(20))
    for got, wanted in zip(
        jax.jit(src.load())(jnp.ones(20)), jax.jit(layer)(jnp.ones(20)), strict=True
    ):
        np.testing.assert_array_equal(got, wanted)


def test_x64_programs_compute_in_64_bits(tmp_path):
    with jax.enable_x64(True):
        src = untrace.source(small)(np.ones(3))
        assert src.report.strength == "identical"
        path = src.save(tmp_path / "wide.py")
    assert "@jax.enable_x64(True)\ndef small(" in path.read_text()
    assert "jax.config" not in path.read_text()
    assert not jax.config.jax_enable_x64
    assert verify_file(path).is_verified and not jax.config.jax_enable_x64
    assert "1.68294197" in _run(path).stdout  # more digits than float32 has


def test_a_sidecar_of_something_else_is_not_replaced(tmp_path):
    src = untrace.source(layer)(jnp.ones(20))
    (tmp_path / "model.py").write_text("mine = 1\n")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    with pytest.raises(untrace.SaveError, match=r"model\.safetensors"):
        src.save(tmp_path / "model.py")
    assert (tmp_path / "model.py").read_text() == "mine = 1\n"
    assert (tmp_path / "model.safetensors").read_bytes() == b"weights"
    assert len(os.listdir(tmp_path)) == 2


def test_our_own_sidecar_is_replaced_or_goes(saved):
    sidecar = saved.with_suffix(".safetensors")
    other = untrace.source(lambda x: x @ (WEIGHTS + 1))(jnp.ones(20))
    other.save(saved)
    assert verify_file(saved).is_verified
    untrace.source(small)(jnp.ones(3)).save(saved)
    assert verify_file(saved).is_verified and not sidecar.exists()
    assert os.listdir(saved.parent) == [saved.name]


def test_an_altered_sidecar_is_not_ours(saved):
    saved.with_suffix(".safetensors").write_bytes(b"retrained")
    with pytest.raises(untrace.SaveError, match="was not saved with"):
        untrace.source(layer)(jnp.ones(20)).save(saved)
    assert saved.with_suffix(".safetensors").read_bytes() == b"retrained"


def test_a_file_that_cannot_be_replaced_keeps_its_sidecar(saved, monkeypatch):
    sidecar = saved.with_suffix(".safetensors")
    before = saved.read_bytes(), sidecar.read_bytes()

    def fails(path, text):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("untrace.result.write_text", fails)
    with pytest.raises(untrace.SaveError, match="No space left"):
        untrace.source(lambda x: x @ (WEIGHTS + 1))(jnp.ones(20)).save(saved)
    assert (saved.read_bytes(), sidecar.read_bytes()) == before
    assert len(os.listdir(saved.parent)) == 2


def test_the_text_does_not_replace_its_own_sidecar(tmp_path):
    with pytest.raises(untrace.SaveError, match=r"ends in \.py"):
        untrace.source(layer)(jnp.ones(20)).save(tmp_path / "model.safetensors")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o027])
def test_modes_of_files_follow_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        path = untrace.source(layer)(jnp.ones(20)).save(tmp_path / "layer.py")
    finally:
        os.umask(before)
    for file in (path, path.with_suffix(".safetensors")):
        assert file.stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_string_like_the_name_of_the_sidecar_stays(tmp_path):
    def f(d):
        return {"sidecar.safetensors": d["sidecar.safetensors"] @ WEIGHTS}

    path = untrace.source(f)({"sidecar.safetensors": jnp.ones(20)}).save(
        tmp_path / 'a"+b.py'
    )
    assert verify_file(path).is_verified


def _fingerprint(text):
    return next(line for line in text.split("\n") if len(line) == 64)


@pytest.mark.parametrize("n_digits", [1, 32, 63])
def test_a_shortened_fingerprint_is_refused(tmp_path, n_digits):
    path = untrace.source(small)(jnp.ones(3)).save(tmp_path / "small.py")
    digest = _fingerprint(path.read_text())
    path.write_text(path.read_text().replace(digest, digest[:n_digits]))
    with pytest.raises(untrace.LoadError, match="no fingerprint"):
        verify_file(path)


def test_the_last_fingerprint_counts(tmp_path):
    path = untrace.source(small)(jnp.ones(3)).save(tmp_path / "small.py")
    text = path.read_text()
    digest = _fingerprint(text)
    line = next(x for x in text.split("\n") if x.startswith("Fingerprint"))
    forged = f"\n\n{line}\n{'0' * 64}\n\n{line}\n{digest}"
    path.write_text(text.replace(f"\n{line}\n{digest}", forged))
    assert verify_file(path).is_verified
    path.write_text(path.read_text().replace(digest, "1" * 64))
    assert not verify_file(path).is_verified


def test_a_line_that_a_note_quotes_is_no_fingerprint(tmp_path):
    path = untrace.source(small)(jnp.ones(3)).save(tmp_path / "small.py")
    text = path.read_text()
    line = next(x for x in text.split("\n") if x.startswith("Fingerprint"))
    path.write_text(text.replace(f"\n\n{line}", f"\n\nA note quotes this:\n{line}"))
    with pytest.raises(untrace.LoadError, match="no fingerprint"):
        verify_file(path)


def test_a_file_with_nul_is_refused(tmp_path):
    path = tmp_path / "nul.py"
    path.write_bytes(b'"""x"""\n\0')
    with pytest.raises(untrace.LoadError, match="not valid Python"):
        verify_file(path)
