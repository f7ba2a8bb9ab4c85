"""Cases of optimal transport and relatives: ott-jax, and folx's Laplacians."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case


def clouds(n: int, m: int) -> tuple[jax.Array, jax.Array]:
    """Return two clouds of points in the plane."""
    keys = jax.random.split(jax.random.key(0))
    return (
        jax.random.normal(keys[0], (n, 2)),
        1.0 + jax.random.normal(keys[1], (m, 2)),
    )


@case("ott-jax", "transport", "while", shows="Sinkhorn between two clouds")
def sinkhorn_between_point_clouds() -> Call:
    """The cost, matrix and dual potentials of entropic transport."""
    from ott.geometry import pointcloud
    from ott.solvers import linear

    def solve(x, y):
        out = linear.solve(pointcloud.PointCloud(x, y, epsilon=0.1))
        return out.reg_ot_cost, out.matrix, out.potentials, out.converged

    return call(solve, *clouds(8, 6))


@case("ott-jax", "transport", "gradient", "linear-solve", shows="implicit gradients")
def sinkhorn_divergence_gradient() -> Call:
    """The gradient of the Sinkhorn divergence by points and by weights."""
    from ott.geometry import pointcloud
    from ott.tools import sinkhorn_divergence

    def loss(x, y, a):
        out = sinkhorn_divergence.sinkhorn_divergence(
            pointcloud.PointCloud, x, y, a=a, epsilon=0.1
        )
        return out[0] if isinstance(out, tuple) else out.divergence

    x, y = clouds(7, 6)
    return call(jax.grad(loss, argnums=(0, 2)), x, y, jnp.full(7, 1 / 7))


@case("ott-jax", "transport", "while", shows="Gromov-Wasserstein of two shapes")
def gromov_wasserstein_coupling() -> Call:
    """The coupling of clouds in different spaces by their distances alone."""
    from ott.geometry import pointcloud
    from ott.problems.quadratic import quadratic_problem
    from ott.solvers.linear import sinkhorn
    from ott.solvers.quadratic import gromov_wasserstein

    def solve(x, y):
        problem = quadratic_problem.QuadraticProblem(
            pointcloud.PointCloud(x, x), pointcloud.PointCloud(y, y)
        )
        solver = gromov_wasserstein.GromovWasserstein(
            sinkhorn.Sinkhorn(), epsilon=1.0, max_iterations=10
        )
        out = solver(problem)
        return out.matrix, out.reg_gw_cost

    x, y = clouds(7, 6)
    return call(solve, jnp.concatenate([x, x[:, :1]], axis=1), y)


@case("ott-jax", "sorting", "while", shows="ranks made smooth by transport")
def soft_ranks_and_quantile() -> Call:
    """Soft ranks, a soft quantile and softly sorted values."""
    from ott.tools import soft_sort

    def ranks(x):
        return soft_sort.ranks(x), soft_sort.quantile(x, q=0.5), soft_sort.sort(x)

    return call(ranks, jnp.array([0.3, -1.2, 2.0, 0.9, 0.1]))


@case("ott-jax", "clustering", "while", "prng", shows="k-means with its own seeding")
def k_means_clustering() -> Call:
    """Lloyd's iteration from k-means++ centres, the best of two starts."""
    from ott.tools import k_means

    def cluster(x, key):
        out = k_means.k_means(x, 3, rng=key, n_init=2, max_iterations=20)
        return out.centroids, out.assignment, out.error

    x, y = clouds(12, 12)
    return call(cluster, jnp.concatenate([x, 2 * y]), jax.random.key(1))


@case("ott-jax", "transport", "sorting", "batched", shows="sliced and 1-d distances")
def sliced_and_univariate_distances() -> Call:
    """Sliced Wasserstein distances, and an exact distance on the line."""
    from ott.geometry import pointcloud
    from ott.solvers import linear
    from ott.tools import sliced

    def distances(x, y):
        geometry = pointcloud.PointCloud(x[:, :1], y[:, :1])
        exact = linear.solve_univariate(geometry).ot_costs
        return sliced.sliced_wasserstein(x, y)[0], exact

    return call(jax.value_and_grad(lambda x, y: distances(x, y)[0]), *clouds(8, 8))


@case("ott-jax", "transport", "low-rank", "scan", shows="low-rank Sinkhorn")
def low_rank_sinkhorn() -> Call:
    """A coupling of rank three between two clouds."""
    from ott.geometry import pointcloud
    from ott.solvers import linear

    def solve(x, y):
        geometry = pointcloud.PointCloud(x, y)
        out = linear.solve(geometry, rank=3, max_iterations=20)
        return out.q, out.r, out.g

    return call(solve, *clouds(9, 8))


@case("folx", "laplacian", "network", "derivatives", shows="a forward Laplacian")
def laplacian_of_a_wave_function() -> Call:
    """The Laplacian of a network times an envelope, in one forward pass."""
    import folx

    keys = jax.random.split(jax.random.key(0))
    w1, w2 = jax.random.normal(keys[0], (6, 16)), jax.random.normal(keys[1], (16, 3))

    def kinetic(x, w1, w2):
        def log_psi(x):
            hidden = jnp.tanh(x @ w1)
            return jnp.sum(jax.nn.logsumexp(hidden @ w2)) - jnp.sum(x**2)

        out = folx.forward_laplacian(log_psi)(x)
        gradient = out.jacobian.dense_array
        return -0.5 * (out.laplacian + jnp.sum(gradient**2))

    x = jax.random.normal(jax.random.key(1), (6,))
    return call(kinetic, x, w1, w2)


@case("folx", "laplacian", "linalg", "batched", shows="a Laplacian through slogdet")
def laplacian_of_slater_determinants() -> Call:
    """Laplacians of a log-determinant of orbitals for a batch of electrons."""
    import folx

    def log_psi(x):
        electrons = x.reshape(3, 3)
        distance = jnp.linalg.norm(electrons[:, None] - jnp.eye(3)[None], axis=-1)
        return jnp.linalg.slogdet(jnp.exp(-distance) + jnp.eye(3))[1]

    operator = folx.ForwardLaplacianOperator(0.6)
    return call(
        jax.vmap(operator(log_psi)), jax.random.normal(jax.random.key(0), (4, 9))
    )


@case("folx", "laplacian", "loop", "derivatives", shows="the Laplacian by a loop")
def laplacian_by_a_loop_of_jvps() -> Call:
    """The Laplacian as a loop over directions of forward over reverse."""
    import folx

    def potential(x):
        return jnp.sum(jnp.sin(x) * jnp.roll(x, 1)) + jnp.prod(jnp.cos(x))

    return call(folx.LoopLaplacianOperator()(potential), jnp.linspace(-1.0, 1.0, 5))
