"""Cases of image processing and augmentation: dm-pix and augmax."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case


def image(*shape: int) -> jax.Array:
    """Return an image of values in [0, 1)."""
    return jax.random.uniform(jax.random.key(0), shape)


@case("dm-pix", "image", "prng", "batched", shows="random augmentations of a batch")
def random_augmentations_of_a_batch() -> Call:
    """Flip, crop and colour jitter, each image with a key of its own."""
    import dm_pix as pix

    def augment(key, x):
        keys = jax.random.split(key, 5)
        x = pix.random_flip_left_right(keys[0], x)
        x = pix.random_crop(keys[1], x, (12, 12, 3))
        x = pix.random_brightness(keys[2], x, 0.2)
        x = pix.random_contrast(keys[3], x, 0.8, 1.2)
        return pix.random_hue(keys[4], x, 0.1)

    keys = jax.random.split(jax.random.key(1), 4)
    return call(jax.vmap(augment), keys, image(4, 16, 16, 3))


@case("dm-pix", "image", "gradient", "convolution", shows="SSIM as a loss")
def ssim_gradient() -> Call:
    """The gradient of structural similarity between two images."""
    import dm_pix as pix

    a = image(20, 20, 3)
    return call(jax.value_and_grad(pix.ssim), a, a[::-1])


@case("dm-pix", "image", "interpolation", "gather", shows="a rotation by interpolation")
def rotation_of_an_image() -> Call:
    """An image rotated by a traced angle, with constant fill outside."""
    import dm_pix as pix

    def rotate(x, angle):
        return pix.rotate(x, angle, mode="constant", cval=0.5)

    return call(rotate, image(15, 17, 3), jnp.array(0.4))


@case("dm-pix", "image", "prng", "convolution", shows="an elastic deformation")
def elastic_deformation_of_an_image() -> Call:
    """A displacement field smoothed by a Gaussian and applied by interpolation."""
    import dm_pix as pix

    def deform(key, x):
        return pix.elastic_deformation(key, x, alpha=10.0, sigma=2.0)

    return call(deform, jax.random.key(1), image(14, 14, 3))


@case("dm-pix", "image", "cond", shows="colour spaces there and back")
def colour_space_adjustments() -> Call:
    """Hue, saturation and gamma by way of HSV, then patches and a blur."""
    import dm_pix as pix

    def adjust(x, delta):
        x = pix.adjust_hue(x, delta)
        x = pix.adjust_gamma(pix.adjust_saturation(x, 1.5), 0.8)
        x = pix.gaussian_blur(pix.solarize(x, 0.7), sigma=1.0, kernel_size=5)
        return pix.rgb_to_hsl(x), pix.space_to_depth(x, 4)

    return call(adjust, image(12, 16, 3), jnp.array(0.1))


@case("augmax", "image", "prng", "gather", shows="the chain of augmax's README")
def readme_chain_of_transformations() -> Call:
    """Random sized crop, flip, rotation and colour jitter of one image."""
    import augmax

    transform = augmax.Chain(
        augmax.RandomSizedCrop(12, 12),
        augmax.HorizontalFlip(),
        augmax.Rotate(),
        augmax.ColorJitter(),
    )
    return call(transform, jax.random.key(1), image(20, 20, 3))


@case("augmax", "image", "batched", "mask", shows="images and masks warped alike")
def warped_images_with_masks() -> Call:
    """A batch of images with segmentation masks under one elastic warp each."""
    import augmax
    from augmax import InputType

    transform = augmax.Chain(
        augmax.ByteToFloat(),
        augmax.Warp(coarseness=4),
        augmax.Rotate90(),
        augmax.Normalize(),
        input_types=[InputType.IMAGE, InputType.MASK],
    )
    keys = jax.random.split(jax.random.key(1), 3)
    images = (image(3, 16, 16, 3) * 255).astype(jnp.uint8)
    masks = (images[..., 0] > 128).astype(jnp.uint8)
    return call(jax.vmap(transform), keys, [images, masks])


@case("augmax", "image", "sorting", "prng", shows="tiles and channels shuffled")
def shuffled_tiles_and_channels() -> Call:
    """Grid and channel shuffles, a grey image and a random gamma."""
    import augmax

    transform = augmax.Chain(
        augmax.GridShuffle(grid_size=(2, 2), p=1.0),
        augmax.ChannelShuffle(p=0.8),
        augmax.RandomGrayscale(p=0.3),
        augmax.RandomGamma(p=0.9),
        augmax.GaussianBlur(),
    )
    return call(transform, jax.random.key(2), image(16, 16, 3))
