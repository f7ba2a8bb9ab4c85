"""Lie groups: poses, rotations and their gradients."""

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
