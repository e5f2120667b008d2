"""Additive fusion over patches: against the formula pair by pair, and its gradients."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from erasable.errors import ArgumentError, StateError
from erasable.fusion import AdditiveFusion, additive_attention, additive_votes, get_kernels
from erasable.fusion import _additive as additive
from erasable.fusion import _additive_kernels as kernels

unhurried = settings(deadline=None, max_examples=40)
sizes = st.tuples(st.integers(1, 5), st.integers(0, 9), st.integers(1, 4))


def drawn(queries, rows, hidden, *, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((queries, hidden), (rows, hidden), (hidden,))
    return [torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes]


def slow_attention(queries, rows, weight, owners=None):
    """Mix rows by the formula, one pair at a time."""
    mixed = []
    for place, query in enumerate(queries):
        keys = [
            key
            for at, key in enumerate(rows)
            if owners is None or owners[0][place] != owners[1][at]
        ]
        if not keys:
            mixed.append(torch.zeros_like(query))
            continue
        scores = [sum(weight * torch.clamp(query + key, min=0)).item() for key in keys]
        top = max(scores)
        votes = [math.exp(score - top) for score in scores]
        mixed.append(sum(v / sum(votes) * key for v, key in zip(votes, keys, strict=True)))
    return torch.stack(mixed)


@unhurried
@given(sizes, st.integers(0, 99), st.integers(1, 4), st.integers(2, 40))
def test_it_equals_the_formula_pair_by_pair(shape, seed, chunk, tile):
    parts = drawn(*shape, seed=seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(additive, "_CHUNK", chunk)
        patch.setattr(kernels, "_TILE", tile)
        found = additive_attention(*parts)
    torch.testing.assert_close(found, slow_attention(*parts), rtol=0, atol=1e-12)


@unhurried
@given(sizes, st.integers(0, 99))
def test_a_query_does_not_read_rows_of_its_owner(shape, seed):
    queries, rows, weight = drawn(*shape, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    owners = [torch.randint(0, 3, (len(part),), generator=generator) for part in (queries, rows)]
    found = additive_attention(queries, rows, weight, query_owners=owners[0], row_owners=owners[1])
    expected = slow_attention(queries, rows, weight, [o.tolist() for o in owners])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("has_owners", [False, True])
def test_gradients_are_right(has_owners, monkeypatch):
    monkeypatch.setattr(additive, "_CHUNK", 3)
    monkeypatch.setattr(kernels, "_TILE", 16)
    parts = [part.requires_grad_() for part in drawn(4, 7, 5)]
    owners = {}
    if has_owners:
        owners = {
            "query_owners": torch.tensor([0, 1, 2, 5]),
            "row_owners": torch.tensor([0, 0, 1, 1, 1, 2, 3]),
        }
    assert gradcheck(lambda *values: additive_attention(*values, **owners), parts)


def test_a_row_of_the_same_owner_gets_no_gradient():
    queries, rows, weight = (part.requires_grad_() for part in drawn(1, 4, 3))
    mixed = additive_attention(
        queries,
        rows,
        weight,
        query_owners=torch.tensor([7]),
        row_owners=torch.tensor([7, 1, 2, 7]),
    )
    mixed.square().sum().backward()
    assert rows.grad[[0, 3]].abs().max() == 0
    assert rows.grad[[1, 2]].abs().min() > 0


def test_bfloat16_differs_by_its_rounding_only():
    parts = drawn(6, 50, 16, dtype=torch.float32)
    short = [part.bfloat16() for part in parts]
    found = additive_attention(*short)
    assert found.dtype == torch.bfloat16
    expected = additive_attention(*(part.float() for part in short))
    torch.testing.assert_close(found.float(), expected, rtol=2**-8, atol=0)


def test_mixed_precision_does_not_reach_the_sums():
    parts = [part.requires_grad_() for part in drawn(4, 60, 16, dtype=torch.float32)]
    plain = additive_attention(*parts)
    expected = torch.autograd.grad(plain.square().sum(), parts)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = additive_attention(*parts)
    torch.testing.assert_close(found, plain)
    for ours, theirs in zip(
        torch.autograd.grad(found.square().sum(), parts), expected, strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def test_gradients_of_bfloat16_differ_by_its_rounding_only():
    parts = drawn(4, 30, 8, dtype=torch.float32)
    short = [part.bfloat16().requires_grad_() for part in parts]
    wide = [part.detach().float().requires_grad_() for part in short]
    found = torch.autograd.grad(additive_attention(*short).float().sum(), short)
    expected = torch.autograd.grad(additive_attention(*wide).sum(), wide)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.float(), theirs, rtol=2**-6, atol=2**-6)


def test_votes_mix_rows_to_the_output():
    parts = drawn(3, 8, 4)
    votes = additive_votes(*(part.clone().requires_grad_() for part in parts))
    assert not votes.requires_grad
    torch.testing.assert_close(votes.sum(dim=1), torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(votes @ parts[1], additive_attention(*parts))


# -- kernels ---------------------------------------------------------------------------------------


@unhurried
@given(sizes, st.integers(0, 99), st.sampled_from([1, -1, 0, None]), st.integers(1, 12))
def test_scores_by_distances_equal_the_formula(shape, seed, sign, block):
    queries, rows, weight = drawn(*shape, seed=seed)
    weight = weight if sign is None else weight.abs() * sign
    expected = torch.relu(queries[:, None] + rows) @ weight
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_BLOCK", block)
        found = get_kernels("eager").scores(queries.float(), rows.float(), weight.float())
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-5)


def test_weights_that_are_no_numbers_are_not_passed_over():
    queries, rows, weight = drawn(2, 3, 4, dtype=torch.float32)
    weight[1] = math.nan
    assert get_kernels("eager").scores(queries, rows, weight).isnan().all()


@unhurried
@given(st.integers(0, 99), st.integers(1, 40), st.integers(0, 69), st.integers(0, 4))
def test_no_other_pair_changes_a_bit_of_a_score(seed, block, first, query):
    queries, rows, weight = drawn(5, 70, 16, seed=seed, dtype=torch.float32)
    eager = get_kernels("eager")
    whole = eager.scores(queries, rows, weight)
    assert torch.equal(
        eager.scores(queries[[query]], rows[first:], weight)[0], whole[query, first:]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_BLOCK", 16 * block)
        assert torch.equal(eager.scores(queries, rows, weight), whole)


has_compiler = pytest.mark.skipif(
    kernels._compiler_problem("cpu") is not None, reason="needs a C++ compiler"
)


@has_compiler
def test_compiled_kernels_equal_eager_ones():
    fast, slow = get_kernels("compiled"), get_kernels("eager")
    for shape in ((5, 33, 16), (70, 9, 16), (3, 1, 8)):
        queries, rows, weight = drawn(*shape, dtype=torch.float32)
        torch.testing.assert_close(
            fast.scores(queries, rows, weight), slow.scores(queries, rows, weight)
        )
        pull = torch.randn(len(queries), len(rows), generator=torch.Generator().manual_seed(1))
        for ours, theirs in zip(
            fast.active_sums(queries, rows, pull),
            slow.active_sums(queries, rows, pull),
            strict=True,
        ):
            torch.testing.assert_close(ours, theirs)


def test_little_work_is_not_compiled():
    assert get_kernels("auto", work=1e6).name == "eager"
    assert get_kernels("eager", work=1e15).name == "eager"


def test_without_a_compiler_eager_kernels_are_taken(monkeypatch):
    monkeypatch.setattr(kernels, "_compiler_problem", lambda device: f"no compiler for {device}")
    assert get_kernels("auto", work=1e15).name == "eager"
    with pytest.raises(StateError, match="no compiler"):
        get_kernels("compiled")


def test_unknown_kernels_are_refused():
    with pytest.raises(ArgumentError, match="'auto', 'compiled', 'eager'"):
        get_kernels("fast")


# -- the module ------------------------------------------------------------------------------------


def scene(*, queries=6, rows=8, patches=3, dim=4, classes=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(queries, patches, dim, generator=generator, dtype=torch.float64),
        torch.randint(0, classes, (queries,), generator=generator),
        torch.randn(rows, patches, dim, generator=generator, dtype=torch.float64),
        torch.randint(0, classes, (rows,), generator=generator),
    )


def fusion(dim=4, **options):
    torch.manual_seed(0)
    made = AdditiveFusion(dim, **options).double()
    torch.nn.init.normal_(made.null)
    return made


@unhurried
@given(st.integers(1, 5), st.integers(0, 7), st.integers(1, 3), st.integers(0, 99), st.booleans())
def test_each_query_reads_the_patches_of_its_own_class(queries, rows, patches, seed, is_training):
    z, of_queries, s, of_rows = scene(queries=queries, rows=rows, patches=patches, seed=seed)
    of_rows = of_rows.sort().values if seed % 2 else of_rows
    generator = torch.Generator().manual_seed(seed)
    own = torch.randint(-1, max(1, rows), (queries,), generator=generator) if is_training else None
    module = fusion()
    found = module(z, of_queries, module.project(s), of_rows, own=own)
    for place in range(queries):
        keys = [
            module.to_key(s[row])
            for row in range(rows)
            if of_rows[row] == of_queries[place] and (own is None or own[place] != row)
        ]
        readers = module.to_query(z[place])
        expected = (
            slow_attention(readers, torch.cat(keys), module.weight)
            if keys
            else module.null.expand(patches, -1)
        )
        torch.testing.assert_close(found[place], expected, rtol=0, atol=1e-12)


def test_the_order_of_rows_and_the_rest_of_the_batch_change_nothing():
    z, of_queries, s, of_rows = scene()
    module = fusion()
    keys = module.project(s)
    found = module(z, of_queries, keys, of_rows)
    order = torch.randperm(len(s), generator=torch.Generator().manual_seed(1))
    again = module(z, of_queries, keys[order], of_rows[order])
    torch.testing.assert_close(again, found, rtol=0, atol=1e-12)
    alone = torch.cat(
        [module(z[i : i + 1], of_queries[i : i + 1], keys, of_rows) for i in range(6)]
    )
    torch.testing.assert_close(alone, found, rtol=0, atol=1e-12)


def test_numbering_classes_anew_changes_nothing():
    z, of_queries, s, of_rows = scene()
    module = fusion()
    anew = torch.tensor([2, 0, 1])
    first = module(z, of_queries, module.project(s), of_rows)
    second = module(z, anew[of_queries], module.project(s), anew[of_rows])
    torch.testing.assert_close(second, first, rtol=0, atol=1e-12)


def test_a_query_without_a_class_reads_the_null_token():
    z, of_queries, s, of_rows = scene()
    module = fusion()
    of_queries[2] = -1
    found = module(z, of_queries, module.project(s), of_rows)
    torch.testing.assert_close(found[2], module.null.expand(3, -1))


def test_one_row_is_read_as_its_projected_patches():
    z, of_queries, s, _ = scene(patches=1)
    module = fusion()
    keys = module.project(s[:1])
    found = module(z, torch.zeros_like(of_queries), keys, torch.zeros(1, dtype=torch.long))
    torch.testing.assert_close(found, keys.expand(len(z), -1, -1))


def test_the_own_row_has_no_gradient_and_the_others_have():
    z, _, s, _ = scene(queries=1, rows=3)
    module, s = fusion(), s.requires_grad_()
    zeros = torch.zeros(3, dtype=torch.long)
    found = module(z, zeros[:1], module.project(s), zeros, own=torch.tensor([1]))
    found.square().sum().backward()
    assert s.grad[1].abs().max() == 0
    assert s.grad[[0, 2]].abs().max() > 0


def test_every_weight_learns():
    z, of_queries, s, of_rows = scene()
    module = fusion()
    of_queries[0] = -1
    module(z, of_queries, module.project(s), of_rows).square().sum().backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in module.parameters())
