"""Cases of graph networks and equivariant networks: jraph, jraphx, e3nn-jax, e3x."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case

SENDERS = jnp.array([0, 1, 2, 3, 4, 0, 2])
RECEIVERS = jnp.array([1, 2, 0, 4, 3, 2, 1])


def two_graphs() -> Any:
    """Return a batch of two small graphs with features everywhere, padded by one."""
    import jraph

    graph = jraph.GraphsTuple(
        nodes=jax.random.normal(jax.random.key(0), (5, 4)),
        edges=jax.random.normal(jax.random.key(1), (7, 3)),
        globals=jnp.ones((2, 2)),
        senders=SENDERS,
        receivers=RECEIVERS,
        n_node=jnp.array([3, 2]),
        n_edge=jnp.array([4, 3]),
    )
    return jraph.pad_with_graphs(graph, n_node=8, n_edge=10, n_graph=3)


def points(n: int) -> jax.Array:
    """Return positions of some atoms."""
    return jax.random.normal(jax.random.key(3), (n, 3))


@case(
    "jraph", "graph", "network", "segments", "gradient", shows="a GraphNetwork trained"
)
def graph_network_gradient() -> Call:
    """The gradient of a graph network with edge, node and global updates."""
    import jraph
    from flax import linen as nn

    class Model(nn.Module):
        @nn.compact
        def __call__(self, graph):
            @jraph.concatenated_args
            def update(features):
                return nn.Dense(8)(nn.relu(nn.Dense(16)(features)))

            network = jraph.GraphNetwork(update, update, update)
            return network(network(graph)).globals

    graph, model = two_graphs(), Model()
    params = model.init(jax.random.key(2), graph)

    def loss(params, graph):
        mask = jraph.get_graph_padding_mask(graph)
        return jnp.sum(mask[:, None] * model.apply(params, graph) ** 2)

    return call(jax.value_and_grad(loss), params, graph)


@case("jraph", "graph", "attention", "segments", shows="attention over neighbours")
def graph_attention_layer() -> Call:
    """A GAT layer: its softmax is over the edges that a node receives."""
    import jraph

    def layer(graph, query, logits):
        gat = jraph.GAT(
            attention_query_fn=lambda nodes: nodes @ query,
            attention_logit_fn=lambda sent, received, _: jax.nn.leaky_relu(
                jnp.concatenate([sent, received], axis=1) @ logits
            ),
            node_update_fn=jax.nn.relu,
        )
        return gat(graph).nodes

    keys = jax.random.split(jax.random.key(2))
    weights = jax.random.normal(keys[0], (4, 6)), jax.random.normal(keys[1], (12, 1))
    return call(layer, two_graphs()._replace(edges=None), *weights)


@case("jraph", "graph", "segments", "batched", shows="a graph convolution by degrees")
def graph_convolution_of_a_batch() -> Call:
    """A normalised convolution, and a mean of the nodes of each graph."""
    import jraph

    def forward(graph, w):
        convolve = jraph.GraphConvolution(
            update_node_fn=lambda x: x @ w,
            symmetric_normalization=True,
            add_self_edges=True,
        )
        graph = convolve(graph)
        ids = jnp.repeat(
            jnp.arange(3), graph.n_node, total_repeat_length=graph.nodes.shape[0]
        )
        return jraph.segment_mean(graph.nodes, ids, num_segments=3)

    return call(forward, two_graphs(), jnp.ones((4, 4)))


@case("jraphx", "graph", "network", "nnx", "gradient", shows="a GCN for nodes")
def gcn_node_classification_gradient() -> Call:
    """The loss gradient of a two-layer GCN over the nodes of a graph."""
    from flax import nnx
    from jraphx.nn.models import GCN

    model = GCN(4, 16, num_layers=2, out_features=3, rngs=nnx.Rngs(0))
    graph, params, rest = nnx.split(model, nnx.Param, ...)

    def loss(params, x, edge_index, labels):
        logits = nnx.merge(graph, params, rest)(x, edge_index)
        onehot = jax.nn.one_hot(labels, 3)
        return -jnp.mean(jnp.sum(onehot * jax.nn.log_softmax(logits), axis=-1))

    x = jax.random.normal(jax.random.key(1), (5, 4))
    edges, labels = jnp.stack([SENDERS, RECEIVERS]), jnp.array([0, 1, 2, 1, 0])
    return call(jax.value_and_grad(loss), params, x, edges, labels)


@case("jraphx", "graph", "attention", "segments", shows="GATv2 over edges")
def gatv2_convolution() -> Call:
    """A GATv2 layer of two heads with self-loops."""
    from flax import nnx
    from jraphx.nn.conv import GATv2Conv

    layer = GATv2Conv(4, 8, heads=2, rngs=nnx.Rngs(0))
    graph, state = nnx.split(layer)

    def forward(state, x, edge_index):
        return nnx.merge(graph, state)(x, edge_index)

    x = jax.random.normal(jax.random.key(1), (5, 4))
    return call(forward, state, x, jnp.stack([SENDERS, RECEIVERS]))


@case("e3nn-jax", "equivariant", "tensor", shows="a tensor product with harmonics")
def tensor_product_with_spherical_harmonics() -> Call:
    """Features of several degrees multiplied by the harmonics of edges."""
    import e3nn_jax as e3nn

    def messages(vectors, features):
        harmonics = e3nn.spherical_harmonics("0e + 1o + 2e", vectors, normalize=True)
        product = e3nn.tensor_product(features, harmonics)
        return product.filter(["0e", "1o"]).regroup()

    features = e3nn.normal("4x0e + 2x1o", jax.random.key(0), (6,))
    return call(messages, points(6), features)


@case("e3nn-jax", "equivariant", "graph", "gradient", shows="forces of a small network")
def equivariant_forces() -> Call:
    """Minus the gradient of an invariant energy by the positions of atoms."""
    import e3nn_jax as e3nn
    import flax.linen as nn

    class Energy(nn.Module):
        @nn.compact
        def __call__(self, positions, senders, receivers):
            edges = positions[receivers] - positions[senders]
            harmonics = e3nn.spherical_harmonics("0e + 1o + 2e", edges, True)
            length = jnp.linalg.norm(edges, axis=-1)
            radial = nn.Dense(8)(e3nn.bessel(length, 6, 4.0))
            messages = e3nn.tensor_product(radial, harmonics)
            messages = e3nn.flax.Linear("8x0e + 4x1o + 4x2e")(messages)
            nodes = e3nn.scatter_sum(messages, dst=receivers, output_size=5)
            nodes = e3nn.tensor_square(nodes).filter(["0e", "1o"])
            nodes = e3nn.gate(e3nn.flax.Linear("6x0e + 2x0e + 2x1o")(nodes))
            return e3nn.flax.Linear("0e")(nodes).array.sum()

    model = Energy()
    positions = points(5)
    params = model.init(jax.random.key(0), positions, SENDERS, RECEIVERS)
    forces = jax.value_and_grad(model.apply, argnums=1)
    return call(forces, params, positions, SENDERS, RECEIVERS)


@case("e3nn-jax", "equivariant", "fft", shows="a signal on the sphere and its square")
def spherical_signal_through_a_grid() -> Call:
    """Coefficients to a grid, a nonlinearity there, and back."""
    import e3nn_jax as e3nn

    irreps = e3nn.s2_irreps(4)

    def activate(x):
        signal = e3nn.to_s2grid(x, 18, 17, quadrature="soft")
        return e3nn.from_s2grid(signal.apply(jax.nn.softplus), irreps)

    return call(activate, e3nn.normal(irreps, jax.random.key(0), ()))


@case("e3nn-jax", "equivariant", "rotation", "batched", shows="Wigner D of quaternions")
def rotated_features() -> Call:
    """Features under random rotations given as quaternions and as angles."""
    import e3nn_jax as e3nn

    def rotate(features, key, angles):
        quaternion = e3nn.rand_quaternion(key, (3,))
        rotated = jax.vmap(features.transform_by_quaternion)(quaternion)
        return rotated, features.transform_by_angles(*angles)

    features = e3nn.normal("2x0e + 1o + 2e", jax.random.key(0), ())
    angles = (jnp.array(0.1), jnp.array(0.7), jnp.array(-0.4))
    return call(rotate, features, jax.random.key(1), angles)


@case("e3x", "equivariant", "graph", "gradient", shows="energy and forces as in e3x")
def message_passing_energy_and_forces() -> Call:
    """The message passing potential of e3x's tutorial on energies and forces."""
    import e3x
    import flax.linen as nn

    class Potential(nn.Module):
        @nn.compact
        def __call__(self, positions, numbers, dst, src):
            displacements = positions[src] - positions[dst]
            basis = e3x.nn.basis(
                displacements,
                num=6,
                max_degree=2,
                radial_fn=e3x.nn.reciprocal_bernstein,
                cutoff_fn=lambda x: e3x.nn.smooth_cutoff(x, cutoff=5.0),
            )
            x = e3x.nn.Embed(num_embeddings=10, features=8)(numbers)
            for _ in range(1):
                y = e3x.nn.MessagePass(include_pseudotensors=False)(
                    x, basis, dst_idx=dst, src_idx=src
                )
                y = e3x.nn.silu(e3x.nn.Dense(8)(e3x.nn.add(x, y)))
                x = e3x.nn.add(x, e3x.nn.Dense(8)(y))
            x = e3x.nn.change_max_degree_or_type(x, max_degree=0)
            return nn.Dense(1)(x[:, 0, 0, :]).sum()

    model = Potential()
    dst, src = e3x.ops.sparse_pairwise_indices(4)
    positions, numbers = points(4), jnp.array([1, 6, 8, 1])
    params = jax.jit(model.init)(jax.random.key(0), positions, numbers, dst, src)
    energy_and_forces = jax.value_and_grad(model.apply, argnums=1)
    return call(energy_and_forces, params, positions, numbers, dst, src)


@case("e3x", "equivariant", "attention", shows="equivariant self-attention of atoms")
def equivariant_self_attention() -> Call:
    """Self-attention over neighbours with features of degree two."""
    import e3x

    layer = e3x.nn.SelfAttention(max_degree=1, num_heads=2)
    dst, src = e3x.ops.sparse_pairwise_indices(4)
    x = jax.random.normal(jax.random.key(0), (4, 1, 4, 8))
    displacements = points(4)[src] - points(4)[dst]
    basis = e3x.nn.basis(
        displacements, num=5, max_degree=1, radial_fn=e3x.nn.reciprocal_bernstein
    )
    params = layer.init(
        jax.random.key(1), x, basis, dst_idx=dst, src_idx=src, num_segments=4
    )
    return call(
        lambda params, x, basis, dst, src: layer.apply(
            params, x, basis, dst_idx=dst, src_idx=src, num_segments=4
        ),
        params,
        x,
        basis,
        dst,
        src,
    )


@case("e3x", "equivariant", "gradient", "polynomials", shows="harmonics and rotations")
def spherical_harmonics_jacobian() -> Call:
    """The Jacobian of harmonics up to degree four, and a Wigner matrix."""
    import e3x

    def harmonics(r, angle):
        rotation = e3x.so3.rotation(axis=jnp.array([0.0, 0.0, 1.0]), angle=angle)
        wigner = e3x.so3.wigner_d(rotation, max_degree=3)
        return e3x.so3.spherical_harmonics(r, max_degree=4), wigner

    return call(jax.jacfwd(harmonics, argnums=(0, 1)), points(2)[0], jnp.array(0.3))
