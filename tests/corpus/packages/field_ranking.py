"""Cases of ranking losses and metrics: rax, clu and metrax."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case

SCORES = jnp.array([[2.2, 1.3, 5.4, 0.1], [0.3, -1.2, 0.9, 0.8]])
LABELS = jnp.array([[1.0, 0.0, 2.0, 0.0], [0.0, 3.0, 1.0, 1.0]])


@case("rax", "ranking", "gradient", shows="the listwise softmax loss of the README")
def softmax_loss_gradient_with_mask() -> Call:
    """The gradient of the softmax loss where some items do not count."""
    import rax

    def loss(scores, labels, where):
        return rax.softmax_loss(scores, labels, where=where)

    where = jnp.array([[True, True, True, False], [True] * 4])
    return call(jax.value_and_grad(loss), SCORES, LABELS, where)


@case("rax", "ranking", "gradient", "sorting", shows="LambdaRank's weights in a loss")
def lambda_rank_gradient() -> Call:
    """The pairwise logistic loss weighted by the change of DCG."""
    import rax

    def loss(scores, labels):
        return rax.pairwise_logistic_loss(
            scores, labels, lambdaweight_fn=rax.dcg_lambdaweight
        )

    return call(jax.grad(loss), SCORES, LABELS)


@case("rax", "ranking", "prng", "gradient", "sorting", shows="ties broken by a key")
def listmle_gradient_with_random_ties() -> Call:
    """The gradient of ListMLE, which sorts by labels and breaks ties at random."""
    import rax

    def loss(scores, labels, key):
        return rax.listmle_loss(scores, labels, key=key)

    key = jax.random.key(0)
    return call(jax.value_and_grad(loss), SCORES, LABELS, key)


@case("rax", "ranking", "sorting", "segments", shows="metrics at cut-offs by segments")
def metrics_over_segments() -> Call:
    """Four metrics of flat lists whose segments name the query."""
    import rax

    segments = jnp.array([0, 0, 1, 1, 1, 2, 2, 2])

    def metrics(scores, labels, segments):
        return {
            "ndcg": rax.ndcg_metric(scores, labels, segments=segments, topn=2),
            "mrr": rax.mrr_metric(scores, labels, segments=segments),
            "ap": rax.ap_metric(scores, labels, segments=segments),
            "precision": rax.precision_metric(
                scores, labels, segments=segments, topn=1
            ),
        }

    return call(metrics, SCORES.ravel(), LABELS.ravel() > 0, segments)


@case("clu", "metrics", "state", shows="a collection merged as a training loop does")
def metric_collection_merge() -> Call:
    """Accuracy, mean and last value of the loss gathered and computed."""
    from clu import metrics

    Metrics = metrics.Collection.create(
        accuracy=metrics.Accuracy,
        loss=metrics.Average.from_output("loss"),
        last=metrics.LastValue.from_output("loss"),
    )

    def update(collection, logits, labels):
        onehot = jax.nn.one_hot(labels, logits.shape[-1])
        loss = -jnp.sum(jax.nn.log_softmax(logits) * onehot, axis=-1)
        single = Metrics.single_from_model_output(
            logits=logits, labels=labels, loss=loss
        )
        merged = collection.merge(single)
        return merged, merged.compute()

    return call(update, Metrics.empty(), SCORES, jnp.array([2, 0]))


@case("google-metrax", "metrics", "sorting", shows="AUC of ROC and of precision-recall")
def areas_under_curves() -> Call:
    """Two areas from thresholded counts, merged over two batches."""
    import metrax

    def areas(predictions, labels):
        roc = metrax.AUCROC.from_model_output(predictions[:6], labels[:6])
        roc = roc.merge(metrax.AUCROC.from_model_output(predictions[6:], labels[6:]))
        pr = metrax.AUCPR.from_model_output(predictions, labels)
        return roc.compute(), pr.compute()

    predictions = jax.random.uniform(jax.random.key(0), (12,))
    labels = (predictions + jnp.linspace(-0.5, 0.5, 12) > 0.5).astype(jnp.int32)
    return call(areas, predictions, labels)


@case(
    "google-metrax", "metrics", "image", "convolution", shows="SSIM and PSNR of images"
)
def image_metrics() -> Call:
    """SSIM, PSNR and Dice of a prediction and its target."""
    import metrax

    def metrics(prediction, target):
        ssim = metrax.SSIM.from_model_output(prediction, target, max_val=1.0)
        psnr = metrax.PSNR.from_model_output(prediction, target, max_val=1.0)
        return ssim.compute(), psnr.compute()

    a = jax.random.uniform(jax.random.key(0), (2, 16, 16, 3))
    return call(metrics, a, jnp.roll(a, 1, axis=1))


@case("google-metrax", "metrics", "ranking", "sorting", shows="ranking metrics at ks")
def ranking_metrics_at_several_cutoffs() -> Call:
    """Precision, recall and NDCG at three cut-offs."""
    import metrax

    def metrics(predictions, labels):
        ks = jnp.array([1, 2, 3])
        classes = (metrax.PrecisionAtK, metrax.RecallAtK, metrax.NDCGAtK)
        return [c.from_model_output(predictions, labels, ks).compute() for c in classes]

    return call(metrics, SCORES, LABELS)
