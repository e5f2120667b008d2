import pytest
import torch
from torch import nn

from erasable.encoders import build_encoder
from erasable.errors import ArgumentError


def build(shape=(3, 8, 8), **options):
    return build_encoder("resnet18", shape, options=options).eval()


def shapes_of(network):
    return {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}


# -- torchvision's names --------------------------------------------------------------------------


def norm(prefix, channels):
    learnt = ("weight", "bias", "running_mean", "running_var")
    return {f"{prefix}.{name}": (channels,) for name in learnt} | {
        f"{prefix}.num_batches_tracked": ()
    }


def block(prefix, channels, width, has_downsample):
    shapes = {f"{prefix}.conv1.weight": (width, channels, 3, 3), **norm(f"{prefix}.bn1", width)}
    shapes |= {f"{prefix}.conv2.weight": (width, width, 3, 3), **norm(f"{prefix}.bn2", width)}
    if has_downsample:
        shapes[f"{prefix}.downsample.0.weight"] = (width, channels, 1, 1)
        shapes |= norm(f"{prefix}.downsample.1", width)
    return shapes


def torchvision_shapes():
    """Return names and shapes of torchvision's resnet18, without its head ``fc``."""
    shapes, channels = {"conv1.weight": (64, 3, 7, 7), **norm("bn1", 64)}, 64
    for stage, width in enumerate((64, 128, 256, 512), 1):
        shapes |= block(f"layer{stage}.0", channels, width, has_downsample=stage > 1)
        shapes |= block(f"layer{stage}.1", width, width, has_downsample=False)
        channels = width
    return shapes


def test_weights_have_the_names_shapes_and_order_of_torchvision():
    assert list(shapes_of(build(stem="imagenet")).items()) == list(torchvision_shapes().items())


def test_a_state_dict_of_torchvision_loads_without_its_head():
    saved = {name: torch.full(shape, 0.5) for name, shape in torchvision_shapes().items()}
    saved |= {"fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}
    encoder = build(stem="imagenet")
    encoder.load_state_dict({k: v for k, v in saved.items() if not k.startswith("fc.")})
    assert all((value == saved[name]).all() for name, value in encoder.named_parameters())


def test_it_has_the_published_number_of_weights():
    assert sum(p.numel() for p in build(stem="imagenet").parameters()) == 11_689_512 - 513_000


# -- architecture ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "stem"),
    [((3, 32, 32), "cifar"), ((3, 63, 200), "cifar"), ((1, 64, 64), "imagenet")],
)
def test_auto_chooses_the_stem_by_the_shorter_side(shape, stem):
    assert build(shape, width=1).options()["stem"] == stem


@pytest.mark.parametrize(("stem", "side"), [("cifar", 32), ("imagenet", 8)])
def test_a_stem_shrinks_the_image_by_its_strides(stem, side):
    encoder = build((3, 32, 32), stem=stem, width=1)
    assert encoder.maxpool(encoder.conv1(torch.zeros(1, 3, 32, 32))).shape == (1, 1, side, side)


def test_stages_double_the_channels_and_halve_the_image():
    encoder, images = build((3, 32, 32), width=2), torch.zeros(1, 2, 32, 32)
    shapes = []
    for stage in (encoder.layer1, encoder.layer2, encoder.layer3, encoder.layer4):
        images = stage(images)
        shapes.append(tuple(images.shape[1:]))
    assert shapes == [(2, 32, 32), (4, 16, 16), (8, 8, 8), (16, 4, 4)]


@pytest.mark.parametrize(("dim", "size"), [(None, 16), (7, 7)])
def test_dim_adds_a_linear_layer(dim, size):
    encoder = build(width=2, dim=dim)
    assert (encoder.dim, encoder(torch.rand(3, 3, 8, 8)).shape) == (size, (3, size))


def test_without_dim_there_is_no_weight_after_the_stages():
    names = [name for name, _ in build(width=2).named_parameters()]
    assert names[-1].startswith("layer4.1.")


def test_no_convolution_has_a_bias():
    convolutions = [m for m in build(width=2).modules() if isinstance(m, nn.Conv2d)]
    assert [convolution.bias for convolution in convolutions] == [None] * 20


def test_kernels_are_drawn_as_he_et_al_propose():
    weight = build(width=64, stem="cifar").layer3[1].conv2.weight
    assert weight.std().item() == pytest.approx((2 / (256 * 9)) ** 0.5, rel=0.01)


def test_a_block_adds_its_input():
    block = build(width=2).layer1[0]
    nn.init.zeros_(block.bn2.weight)
    images = torch.randn(2, 2, 4, 4)
    torch.testing.assert_close(block(images), images.relu())


def test_a_shortcut_equals_a_strided_convolution():
    block, images = build(width=2).layer2[0], torch.randn(2, 2, 5, 6)
    kernel = block.downsample[0].weight
    found = block.downsample[0](block.subsample(images))
    torch.testing.assert_close(found, nn.functional.conv2d(images, kernel, stride=2))


@pytest.mark.parametrize("width", [1, 4, 7])
def test_a_narrow_shortcut_has_the_same_gradient_in_the_layout_for_images(width):
    """The gradient of a strided 1×1 convolution once corrupted memory here (oneDNN issue 6035)."""
    images, found = torch.randn(128, width, 16, 16), []
    for layout in (torch.contiguous_format, torch.channels_last):
        block = build(width=width).layer2[0].to(memory_format=layout)
        shortcut = block.downsample[0](block.subsample(images.contiguous(memory_format=layout)))
        shortcut.square().sum().backward()
        found.append(block.downsample[0].weight.grad)
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-2)


def test_no_strided_1x1_convolution_is_left():
    convolutions = [m for m in build(width=2).modules() if isinstance(m, nn.Conv2d)]
    assert {c.stride for c in convolutions if c.kernel_size == (1, 1)} == {(1, 1)}


def test_an_unknown_stem_is_told():
    message = "Expected stem 'auto', 'cifar' or 'imagenet', but got 'small'"
    with pytest.raises(ArgumentError, match=message):
        build(stem="small")


def test_a_wrong_width_is_told():
    with pytest.raises(ArgumentError, match=r"Expected width to be a positive int, but got 0\.5"):
        build(width=0.5)
