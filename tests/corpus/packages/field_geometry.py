"""Lie groups, optimal transport and signatures."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case


@case(
    "jaxlie",
    "geometry",
    "pytree",
    shows="Poses composed and mapped to their logarithm.",
)
def compose_poses() -> Call:
    import jaxlie

    def relative(first: Any, second: Any, points: Any) -> Any:
        between = first.inverse() @ second
        return between.log(), jax.vmap(between.apply)(points), between.adjoint()

    first = jaxlie.SE3.exp(jnp.array([0.1, 0.2, 0.3, 0.4, -0.5, 0.6]))
    second = jaxlie.SE3.from_rotation_and_translation(
        jaxlie.SO3.from_rpy_radians(0.1, 0.2, 0.3), jnp.array([1.0, 2.0, 3.0])
    )
    return call(relative, first, second, jnp.arange(12.0).reshape(4, 3))


@case(
    "jaxlie", "geometry", "gradient", "manifold", shows="A gradient on the rotations."
)
def gradient_on_rotations() -> Call:
    import jaxlie

    def loss(rotation: Any, points: Any, targets: Any) -> Any:
        return jnp.mean((jax.vmap(rotation.apply)(points) - targets) ** 2)

    def step(rotation: Any, points: Any, targets: Any) -> Any:
        value, gradient = jaxlie.manifold.value_and_grad(loss)(
            rotation, points, targets
        )
        return jaxlie.manifold.rplus(rotation, -0.5 * gradient), value

    points = jax.random.normal(jax.random.PRNGKey(0), (6, 3))
    return call(step, jaxlie.SO3.identity(), points, points[:, ::-1])


@case("jaxlie", "geometry", "scan", "random", shows="A walk of random planar motions.")
def random_planar_walk() -> Call:
    import jaxlie

    def walk(key: Any, start: Any) -> Any:
        def step(pose: Any, key: Any) -> Any:
            pose = pose @ jaxlie.SE2.exp(0.1 * jax.random.normal(key, (3,)))
            return pose, pose.translation()

        return jax.lax.scan(step, start, jax.random.split(key, 15))

    return call(walk, jax.random.PRNGKey(1), jaxlie.SE2.identity())


@case(
    "jaxlie", "geometry", "pose-graph", "linear-solve", shows="A step on a pose graph."
)
def pose_graph_step() -> Call:
    import jaxlie

    def residuals(poses: Any, odometry: Any) -> Any:
        first = jaxlie.SE2(poses.parameters()[:-1])
        second = jaxlie.SE2(poses.parameters()[1:])
        error = odometry.inverse() @ (first.inverse() @ second)
        return error.log().flatten()

    def step(poses: Any, odometry: Any) -> Any:
        def moved(delta: Any) -> Any:
            return residuals(jaxlie.manifold.rplus(poses, delta), odometry)

        zeros = jnp.zeros((poses.parameters().shape[0], 3))
        jacobian = jax.jacfwd(moved)(zeros).reshape(-1, zeros.size)
        normal = jacobian.T @ jacobian + 1e-3 * jnp.eye(zeros.size)
        delta = -jnp.linalg.solve(normal, jacobian.T @ moved(zeros))
        return jaxlie.manifold.rplus(poses, delta.reshape(zeros.shape))

    tangents = 0.3 * jax.random.normal(jax.random.PRNGKey(2), (5, 3))
    return call(step, jaxlie.SE2.exp(tangents), jaxlie.SE2.exp(tangents[:4] * 0.9))


def two_clouds(n: int, m: int) -> tuple[Any, Any]:
    """Return points of two clouds."""
    x = jax.random.normal(jax.random.PRNGKey(3), (n, 2))
    return x, 0.5 * jax.random.normal(jax.random.PRNGKey(4), (m, 2)) + 1.0


@case("ott-jax", "transport", "while", "implicit", shows="Sinkhorn between two clouds.")
def sinkhorn_gradient() -> Call:
    from ott.geometry import pointcloud
    from ott.solvers import linear

    def cost(x: Any, y: Any) -> Any:
        geometry = pointcloud.PointCloud(x, y, epsilon=0.1)
        return linear.solve(geometry).reg_ot_cost

    return call(jax.value_and_grad(cost), *two_clouds(12, 10))


@case("ott-jax", "transport", "while", shows="A divergence of clouds.")
def sinkhorn_divergence() -> Call:
    from ott.geometry import pointcloud
    from ott.tools import sinkhorn_divergence as divergence

    def distance(x: Any, y: Any) -> Any:
        value, _ = divergence.sinkhorn_divergence(
            pointcloud.PointCloud, x, y, epsilon=0.2
        )
        return value

    return call(distance, *two_clouds(9, 9))


@case("ott-jax", "transport", "quadratic", "while", shows="Gromov and Wasserstein.")
def gromov_wasserstein() -> Call:
    from ott.geometry import pointcloud
    from ott.solvers import quadratic

    def match(x: Any, y: Any) -> Any:
        solution = quadratic.solve(
            pointcloud.PointCloud(x), pointcloud.PointCloud(y), epsilon=0.5
        )
        return solution.matrix, solution.primal_cost

    return call(match, *two_clouds(8, 7))


@case("ott-jax", "sort", "soft", "while", shows="Soft sorts, ranks and quantiles.")
def soft_sort_and_ranks() -> Call:
    from ott.tools import soft_sort

    def summary(x: Any) -> Any:
        ordered = soft_sort.sort(x, epsilon=0.05)
        ranks = soft_sort.ranks(x, epsilon=0.05)
        return ordered, ranks, soft_sort.quantile(x, q=jnp.array([0.5]))

    return call(summary, jnp.array([3.0, -1.0, 2.0, 0.5, 1.4, -0.3, 4.0]))


@case("signax", "paths", "scan", "batched", shows="Signatures of a batch of paths.")
def signatures_of_paths() -> Call:
    import signax

    def features(paths: Any) -> Any:
        return jax.vmap(lambda path: signax.signature(path, depth=3))(paths)

    steps = jax.random.normal(jax.random.PRNGKey(6), (4, 10, 2))
    return call(features, jnp.cumsum(steps, axis=1))


@case("signax", "paths", "gradient", shows="A gradient of a log signature.")
def gradient_of_log_signature() -> Call:
    import signax

    def loss(path: Any) -> Any:
        return jnp.sum(signax.logsignature(path, depth=3) ** 2)

    steps = jax.random.normal(jax.random.PRNGKey(7), (8, 3))
    return call(jax.grad(loss), jnp.cumsum(0.3 * steps, axis=0))
