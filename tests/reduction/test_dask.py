"""Many machines can share one reduction: any executor will do, such as Dask's."""

import pytest

import untrace
from tests.reduction.programs import deep
from untrace.ir import all_equations

distributed = pytest.importorskip("distributed")


@pytest.mark.corpus  # its processes take minutes to begin on a busy machine
def test_a_cluster_reduces():
    function, args = deep(4)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        reduction = untrace.reduce(
            function, keep="nan()", jobs=2, executor=client.get_executor()
        )(*args)
    names = [eqn.name for eqn in all_equations(reduction.program.block)]
    assert names == ["log"]
    told = [note for note in reduction.notes if "jobs" not in note]  # how fast it was
    assert not told
