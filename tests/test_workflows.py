"""The workflows call the project's own commands, with the least rights."""

import re
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_is_in_order(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert all("permissions" not in job for job in workflow["jobs"].values())
    assert all(job["timeout-minutes"] <= 90 for job in workflow["jobs"].values())
    uses = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", action) for action in uses), uses
    commands = [step["run"] for step in steps(workflow) if "run" in step]
    assert commands
    known = re.findall(r"^(\w+)\)$", (ROOT / "dev").read_text(), re.MULTILINE)
    for command in commands:
        name, argument, *_ = command.split()
        assert name == "./dev" and argument in known, command


def test_both_environments_are_tested():
    workflow = yaml.safe_load(
        (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    )
    versions = workflow["jobs"]["tests"]["strategy"]["matrix"]["python"]
    ci = (ROOT / ".ci" / "run").read_text()
    assert all(f"find_python {version}" in ci for version in versions)
