"""Datapipes: steps, iterations, graphs, seeds, and what loaders do with them."""

import copy
import io
import itertools
import pickle
import random
import warnings
from functools import partial

import pytest

import flambeau
from flambeau.utils.data import (
    DataChunk,
    DataLoader,
    IterDataPipe,
    MapDataPipe,
    RandomSampler,
    argument_validation,
    functional_datapipe,
    guaranteed_datapipes_determinism,
    non_deterministic,
    runtime_validation,
    runtime_validation_disabled,
)
from flambeau.utils.data.datapipes import iter as steps
from flambeau.utils.data.datapipes import map as by_index
from flambeau.utils.data.datapipes.dataframe import dataframe_wrapper
from flambeau.utils.data.datapipes.iter import IterableWrapper
from flambeau.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES
from flambeau.utils.data.datapipes.map import SequenceWrapper
from flambeau.utils.data.datapipes.utils.common import StreamWrapper
from flambeau.utils.data.datapipes.utils.decoder import Decoder, basichandlers, handle_extension
from flambeau.utils.data.datapipes.utils.snapshot import _simple_graph_snapshot_restoration
from flambeau.utils.data.graph import traverse_dps
from flambeau.utils.data.graph_settings import (
    apply_random_seed,
    apply_sharding,
    apply_shuffle_settings,
    get_all_graph_pipes,
)


def numbers(count=10):
    return IterableWrapper(range(count))


def odd(x):
    return x % 2


def tenfold(x):
    return x * 10


def at_least(least, x):
    return x >= least


def refuse(x):
    raise ValueError("no", x)


def classed(x):
    return 5


def first_letter(name):
    return name[0]


STEPS = {
    "map": (lambda: numbers(3).map(tenfold), [0, 10, 20]),
    "map to a column": (
        lambda: IterableWrapper([(1, 2), (3, 4)]).map(tenfold, input_col=1, output_col=-1),
        [(1, 2, 20), (3, 4, 40)],
    ),
    "map of columns": (
        lambda: IterableWrapper([[1, 2, 3]]).map(max, input_col=[2, 0]),
        [[2, 3]],
    ),
    "map of keys": (
        lambda: IterableWrapper([{"a": 1}]).map(tenfold, "a", "b"),
        [{"a": 1, "b": 10}],
    ),
    "filter": (lambda: numbers(6).filter(partial(at_least, 4)), [4, 5]),
    "filter by a column": (
        lambda: IterableWrapper([(1, 2), (5, 6)]).filter(partial(at_least, 4), input_col=0),
        [(5, 6)],
    ),
    "batch": (lambda: numbers(5).batch(2), [[0, 1], [2, 3], [4]]),
    "batch, full ones": (lambda: numbers(5).batch(2, drop_last=True), [[0, 1], [2, 3]]),
    "unbatch": (lambda: IterableWrapper([[[0], [1]], [[2]]]).unbatch(2), [0, 1, 2]),
    "unbatch all": (lambda: IterableWrapper([[[0], 1], 2]).unbatch(-1), [0, 1, 2]),
    "unbatch nothing": (lambda: IterableWrapper([[0]]).unbatch(0), [[0]]),
    "concat": (lambda: numbers(2).concat(numbers(2)), [0, 1, 0, 1]),
    "zip": (lambda: numbers(3).zip(numbers(2)), [(0, 0), (1, 1)]),
    "mux": (lambda: numbers(3).mux(IterableWrapper("ab")), [0, "a", 1, "b"]),
    "groups": (lambda: numbers(5).groupby(odd), [[0, 2, 4], [1, 3]]),
    "groups of a size": (
        lambda: IterableWrapper(["a1", "b1", "b2", "a2"]).groupby(first_letter, group_size=2),
        [["b1", "b2"], ["a1", "a2"]],
    ),
    "groups with keys": (
        lambda: numbers(4).groupby(odd, keep_key=True),
        [(0, [0, 2]), (1, [1, 3])],
    ),
    "groups that go early": (
        lambda: numbers(10).groupby(odd, group_size=4, buffer_size=5, guaranteed_group_size=2),
        [[0, 2, 4], [1, 3, 5, 7], [6, 8], [9]],
    ),
    "groups too small to go early": (
        lambda: numbers(10).groupby(odd, group_size=4, buffer_size=5, drop_remaining=True),
        [[1, 3, 5, 7], [6, 8], [9]],
    ),
    "sampler": (lambda: steps.Sampler(numbers(3)), [0, 1, 2]),
    "shuffle with a seed": (
        lambda: numbers(10).shuffle().set_seed(5),
        [9, 4, 6, 8, 7, 5, 0, 2, 1, 3],
    ),
    "shuffle out of a small buffer": (
        lambda: numbers(10).shuffle(buffer_size=3).set_seed(7),
        [1, 0, 3, 2, 4, 7, 6, 8, 9, 5],
    ),
    "shuffle of batches": (
        lambda: IterableWrapper([[1, 2], [3, 4]]).shuffle(unbatch_level=1).set_seed(7),
        [3, 1, 4, 2],
    ),
    "shuffle by index": (
        lambda: SequenceWrapper(range(10)).shuffle().set_seed(7),
        [8, 3, 1, 4, 7, 0, 9, 6, 2, 5],
    ),
    "shuffle switched off": (lambda: numbers(4).shuffle().set_shuffle(False), [0, 1, 2, 3]),
    "map by index": (lambda: SequenceWrapper(range(3)).map(tenfold), [0, 10, 20]),
    "batch by index": (lambda: SequenceWrapper(range(3)).batch(2), [[0, 1], [2]]),
    "concat by index": (lambda: SequenceWrapper("ab").concat(SequenceWrapper("c")), list("abc")),
    "zip by index": (lambda: SequenceWrapper("ab").zip(SequenceWrapper("c")), [("a", "c")]),
    "chunks of streams": (
        lambda: IterableWrapper([("a", io.StringIO("abc"))]).read_from_stream(2),
        [("a", "ab"), ("a", "c")],
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_gives_its_samples_again_and_again(name):
    make, expected = STEPS[name]
    pipe = make()
    assert list(pipe) == expected
    if "seed" not in name and "shuffle" not in name:
        assert list(pipe) == expected
        assert list(pickle.loads(pickle.dumps(pipe))) == expected if "stream" not in name else True


def test_a_pipe_without_shuffle_seed_draws_one_of_the_default_generator():
    flambeau.manual_seed(0)
    assert list(SequenceWrapper(range(10)).shuffle()) == [8, 9, 1, 6, 2, 5, 7, 0, 4, 3]
    assert list(numbers().shuffle()) == [3, 4, 9, 2, 6, 5, 8, 0, 7, 1]


REFUSED = {
    "no pipe to concatenate": (lambda: steps.Concater(), ValueError, "Expected at least one"),
    "no pipe": (lambda: steps.Concater(numbers(), []), TypeError, "Expected all inputs to be"),
    "batches of none": (lambda: numbers().batch(0), AssertionError, "Batch size is required"),
    "buffer of none": (lambda: numbers().shuffle(buffer_size=0), AssertionError, "buffer_size"),
    "fork into none": (lambda: numbers().fork(0), ValueError, "larger than 0, but 0 is found"),
    "unknown copies": (lambda: numbers().fork(2, copy="x"), ValueError, "Unknown copy method `x`"),
    "fork too far": (
        lambda: list(numbers().fork(2, buffer_size=3)[0]),
        BufferError,
        "ForkerIterDataPipe buffer overflow,buffer size 3 is insufficient.",
    ),
    "demux too far": (
        lambda: list(numbers().demux(2, odd, buffer_size=3)[0]),
        BufferError,
        "DemultiplexerIterDataPipe buffer overflow, buffer size 3 is insufficient.",
    ),
    "classes that are not there": (
        lambda: list(numbers().demux(2, classed)[0]),
        ValueError,
        "Output of the classification fn should be between 0 and 1. 5 is returned.",
    ),
    "filters that do not decide": (
        lambda: list(numbers().filter(classed)),
        ValueError,
        "Boolean output is required for `filter_fn` of FilterIterDataPipe, got",
    ),
    "levels that are not there": (
        lambda: list(numbers().unbatch(2)),
        IndexError,
        "unbatch_level 2 exceeds the depth",
    ),
    "groups that cannot be": (
        lambda: list(numbers().groupby(odd, group_size=5, buffer_size=5)),
        RuntimeError,
        "Failed to group items",
    ),
    "too many columns": (
        lambda: numbers().map(tenfold, input_col=[0, 1]),
        ValueError,
        "The function tenfold takes 1 parameters, but 2 are required.",
    ),
    "an output without inputs": (
        lambda: numbers().map(tenfold, output_col=1),
        ValueError,
        "`output_col` must be None",
    ),
    "an index behind the end": (
        lambda: SequenceWrapper("a").zip(SequenceWrapper("bc"))[1],
        IndexError,
        "Index 1 is out of range for one of the input MapDataPipes SequenceWrapperMapDataPipe.",
    ),
    "a batch behind the end": (
        lambda: SequenceWrapper("abc").batch(2)[2],
        IndexError,
        "Index 2 is out of bound.",
    ),
    "an unknown length": (
        lambda: len(IterableWrapper(iter([])).map(odd)),
        TypeError,
        "IterableWrapperIterDataPipe instance doesn't have valid length",
    ),
    "a share that is not there": (
        lambda: numbers().sharding_filter().apply_sharding(2, 2),
        ValueError,
        r"instance_id\(2\) should be smaller than num_of_instances\(2\)",
    ),
    "shards of shards": (
        lambda: apply_sharding(numbers().sharding_filter().sharding_filter(), 2, 1),
        RuntimeError,
        "Sharding twice on a single pipeline",
    ),
    "no method": (lambda: numbers().nothing, AttributeError, "has no attribute 'nothing"),
    "a mode of files": (lambda: numbers().open_files(mode="q"), ValueError, "Invalid mode q"),
    "no pipe for a graph": (lambda: traverse_dps(3), RuntimeError, "Expected `IterDataPipe` or"),
    "a name that is taken": (
        lambda: functional_datapipe("map")(type("Own", (IterDataPipe,), {})),
        Exception,
        "Unable to add DataPipe function name map as it is already taken",
    ),
    "a sampler of the loader": (
        lambda: DataLoader(numbers(), sampler=[1]),
        ValueError,
        "expected unspecified sampler option",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    make, error, text = REFUSED[name]
    with pytest.raises(error, match=text):
        make()


def test_lengths():
    assert [len(p) for p in (numbers(5).batch(2), numbers(5).map(odd), numbers(5).shuffle())] == [
        3,
        5,
        5,
    ]
    assert [len(child) for child in numbers(5).fork(2)] == [5, 5]
    assert len(numbers(5).mux(numbers(2))) == 4


# -- iterations ------------------------------------------------------------------------------------


def test_a_new_iterator_makes_the_others_invalid():
    pipe = numbers().map(tenfold)
    first = iter(pipe)
    assert next(first) == 0
    second = iter(pipe)
    assert next(second) == 0
    with pytest.raises(RuntimeError, match=r"This iterator has been invalidated.*fn=tenfold"):
        next(first)
    assert next(second) == 10


class Own(IterDataPipe):
    """A pipe whose iterator is no generator."""

    def __init__(self, source):
        self.source = self.left = source

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.left)

    def reset(self):
        self.left = iter(self.source)


def test_pipes_that_are_their_own_iterator():
    pipe = Own([1, 2, 3])
    assert list(pipe) == list(pipe) == [1, 2, 3]
    assert pipe._number_of_samples_yielded == 3
    first = iter(pipe)
    iter(pipe)
    with pytest.raises(RuntimeError, match="invalidated"):
        next(first)
    assert next(pipe) == 1


def test_an_error_says_in_which_pipe():
    with pytest.raises(ValueError, match="no") as caught:
        list(numbers().map(refuse).filter(bool))
    assert caught.value.args[0] == (
        "no\nThis exception is thrown by __iter__ of MapperIterDataPipe("
        "datapipe=IterableWrapperIterDataPipe, fn=refuse, input_col=None, output_col=None)"
    )
    assert caught.value.args[1] == 0


def test_children_share_one_iteration():
    one, two = numbers(4).fork(2)
    assert list(zip(one, two)) == [(i, i) for i in range(4)]
    first = iter(one)
    assert next(first) == 0
    with pytest.warns(UserWarning, match="Some child DataPipes are not exhausted"):
        again = iter(one)
    with pytest.raises(RuntimeError, match="invalidated"):
        next(first)
    assert list(again) == list(two) == [0, 1, 2, 3]


def test_fork_keeps_no_more_than_the_slowest_needs():
    one, two = numbers(6).fork(2, buffer_size=2)
    assert [next(it) for it in itertools.islice(itertools.cycle([iter(one), iter(two)]), 12)] == [
        i // 2 for i in range(12)
    ]
    even, rest = numbers(6).demux(2, odd)
    assert (list(even), list(rest)) == ([0, 2, 4], [1, 3, 5])
    copies = IterableWrapper([[1]]).fork(2, copy="deep")
    left, right = (next(iter(child)) for child in copies)
    assert left == right and left is not right


def test_unbounded_buffers_are_warned_of():
    with pytest.warns(UserWarning, match="Unlimited buffer size is set for `fork`"):
        numbers().fork(2, buffer_size=-1)


def test_functions_that_cannot_be_pickled_are_warned_of():
    with pytest.warns(UserWarning, match="^Lambda function is not supported by pickle"):
        numbers().map(lambda x: x)
    with pytest.warns(UserWarning, match="^Local function is not supported by pickle"):

        def local(x):
            return x

        numbers().filter(local)


def test_a_snapshot_goes_on():
    pipe = numbers().shuffle().map(tenfold).batch(2)
    expected = list(apply_random_seed(pipe, flambeau.Generator().manual_seed(0)))
    _simple_graph_snapshot_restoration(pipe, 2, flambeau.Generator().manual_seed(0))
    with pytest.raises(RuntimeError, match="Snapshot restoration cannot be applied"):
        _simple_graph_snapshot_restoration(pipe, 2)
    assert list(pipe) == expected[2:]


def test_steps_of_programs():
    @functional_datapipe("with_neighbour")
    class Neighbour(IterDataPipe):
        """Pairs."""

        def __init__(self, source):
            self.source = source

        def __iter__(self):
            yield from itertools.pairwise(self.source)

    try:
        assert list(numbers(3).with_neighbour()) == [(0, 1), (1, 2)]
        assert "functional name: ``with_neighbour``" in numbers().with_neighbour.__doc__
        assert "with_neighbour" in dir(numbers())
    finally:
        del IterDataPipe.functions["with_neighbour"]


def test_determinism():
    @non_deterministic
    class Any(IterDataPipe):
        def __iter__(self):
            yield 1

    assert list(Any()) == [1]
    refused = pytest.raises(TypeError, match="Any is non-deterministic, but you set")
    with guaranteed_datapipes_determinism(), refused:
        Any()
    with pytest.raises(TypeError, match="Only `IterDataPipe` can be decorated"):
        non_deterministic(int)


def test_validation():
    class Checked(IterDataPipe):
        @argument_validation
        def __init__(self, source: IterDataPipe, more: int = 1):
            self.source = source

        @runtime_validation
        def __iter__(self):
            yield from self.source

    assert list(Checked(numbers(2))) == [0, 1]
    with runtime_validation_disabled():
        assert list(Checked(numbers(2), "x")) == [0, 1]
    with pytest.raises(TypeError, match="Expected argument 'source' as a IterDataPipe, but found"):
        Checked([1])
    with pytest.raises(TypeError, match="Can not decorate function odd"):
        runtime_validation(odd)


# -- chunks, streams, files ------------------------------------------------------------------------


def test_chunks():
    chunk = DataChunk(range(4))
    assert (list(chunk.raw_iterator()), chunk.as_str("- ")) == ([0, 1, 2, 3], "- [0, 1, 2, 3]")
    random.Random(0).shuffle(chunk)
    plain = list(range(4))
    random.Random(0).shuffle(plain)
    assert chunk == plain and copy.copy(chunk) == plain


def test_streams_close_themselves():
    stream = io.BytesIO(b"abc")
    wrapper = StreamWrapper(stream, name="x")
    assert wrapper.read(1) == b"a" and repr(wrapper).startswith("StreamWrapper<x,<_io.BytesIO")
    del wrapper
    assert stream.closed
    parent = StreamWrapper(io.BytesIO(b""))
    child = StreamWrapper(io.BytesIO(b""), parent)
    parent.autoclose()
    assert not parent.closed
    StreamWrapper.close_streams([{"a": (child,)}])
    assert parent.closed


def test_files(tmp_path):
    (tmp_path / "b.txt").write_text("two")
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "c.png").write_bytes(b"x")
    names = steps.FileLister(str(tmp_path), "*.txt")
    assert list(names) == [str(tmp_path / n) for n in ("a.txt", "b.txt")]
    assert len(list(steps.FileLister(str(tmp_path), recursive=True))) == 3
    assert [data for _, data in names.open_files("r").read_from_stream()] == ["one", "two"]
    with pytest.warns(FutureWarning, match="RoutedDecoderIterDataPipe"):
        decoded = names.open_files("b").routed_decode()
    assert [value for _, value in decoded] == ["one", "two"]


def test_decoders():
    cases = [("cls", b"5", 5), ("json", b"[1]", [1]), ("txt", b"x", "x"), ("zz", b"5", None)]
    for key, data, value in cases:
        assert basichandlers(key, data) == value
    assert basichandlers("pyd", pickle.dumps({"a": 1})) == {"a": 1}
    handler = handle_extension("b.c", len)
    assert handler("x.b.c", b"12") == 2 and handler("x.c", b"12") is None
    decoder = Decoder(basichandlers)
    decoder.add_handler(lambda key, data: "first" if key == "txt" else None)
    found = decoder([("a.txt", b"1"), ("b.cls", b"2"), ("_c", b"3")])
    assert found == {"a.txt": "first", "b.cls": 2, "_c": "3"}


def test_images_are_decoded():
    image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    image.new("RGB", (2, 3), (255, 0, 0)).save(file, "png")
    from flambeau.utils.data.datapipes.utils.decoder import imagehandler

    tensor = imagehandler("torch")("png", file.getvalue())
    assert tensor.shape == (3, 3, 2) and tensor[0].eq(1).all() and tensor[1].eq(0).all()
    assert imagehandler("rgb8")("png", file.getvalue()).dtype == "uint8"
    assert imagehandler("pil")("jpg2", b"") is None


# -- graphs ----------------------------------------------------------------------------------------


def test_graphs():
    source = numbers()
    left, right = source.fork(2)
    joined = left.map(tenfold).zip(right.shuffle())
    pipes = get_all_graph_pipes(traverse_dps(joined))
    assert len(pipes) == 7 and source in pipes and left.main_datapipe in pipes
    inner = SequenceWrapper([1])
    outer = IterableWrapper([[{"a": inner}], open])
    assert traverse_dps(outer) == {id(outer): (outer, {id(inner): (inner, {})})}


def test_shuffling_is_switched_for_a_graph():
    pipe = numbers(4).shuffle().map(tenfold)
    assert list(apply_shuffle_settings(pipe, False)) == [0, 10, 20, 30]
    with pytest.warns(UserWarning, match="does not contain a `Shuffler`. Adding one"):
        assert isinstance(apply_shuffle_settings(numbers(), True), steps.Shuffler)


def test_shards_of_groups():
    pipe = numbers(90)
    for group in (SHARDING_PRIORITIES.DISTRIBUTED, SHARDING_PRIORITIES.MULTIPROCESSING, 300):
        pipe = pipe.sharding_filter(sharding_group_filter=group)
    step = pipe
    while isinstance(step, steps.ShardingFilter):
        step.apply_sharding(2, 1, SHARDING_PRIORITIES.DISTRIBUTED)
        step.apply_sharding(5, 3, SHARDING_PRIORITIES.MULTIPROCESSING)
        step.apply_sharding(3, 1, 300)
        step = step.source_datapipe
    assert list(pipe) == [17, 47, 77] and len(pipe) == 3
    with pytest.raises(RuntimeError, match="cannot mix DEFAULT and non DEFAULT groups"):
        pipe.apply_sharding(2, 1)


# -- loaders ---------------------------------------------------------------------------------------


def test_loaders_seed_shufflers():
    flambeau.manual_seed(0)
    loader = DataLoader(numbers(6).shuffle(), batch_size=2)
    epochs = [[batch.tolist() for batch in loader] for _ in range(2)]
    assert epochs == [[[4, 0], [3, 5], [2, 1]], [[3, 4], [0, 2], [5, 1]]]
    assert len(loader) == 3
    assert flambeau.rand(1).item() == pytest.approx(0.4556, abs=1e-4)


def test_loaders_switch_shufflers():
    pipe = numbers(6).shuffle()
    assert list(DataLoader(pipe, shuffle=False, batch_size=None)) == list(range(6))
    with pytest.warns(UserWarning, match="does not contain a `Shuffler`"):
        loader = DataLoader(numbers(50), shuffle=True, batch_size=None)
    found = list(loader)
    assert found != sorted(found) == list(range(50))


def test_loaders_of_pipes_with_indices():
    flambeau.manual_seed(0)
    loader = DataLoader(SequenceWrapper(range(6)), batch_size=2, shuffle=True)
    assert [batch.tolist() for batch in loader] == [[0, 4], [3, 5], [2, 1]]
    assert isinstance(loader.dataset, MapDataPipe)


@pytest.mark.parametrize(
    ("generator", "expected"), [(None, [4, 0, 3, 5, 2, 1]), (4, [2, 5, 0, 3, 1, 4])]
)
def test_workers_share_out_a_pipe(generator, expected):
    flambeau.manual_seed(0)
    pipe = numbers(6).shuffle().sharding_filter()
    if generator is not None:
        pipe, generator = pipe.shuffle(), flambeau.Generator().manual_seed(generator)
    loader = DataLoader(pipe, batch_size=None, num_workers=2, generator=generator)
    assert list(loader) == expected


def test_workers_that_stay_get_new_seeds():
    flambeau.manual_seed(0)
    pipe = numbers(6).shuffle().sharding_filter()
    loader = DataLoader(pipe, batch_size=None, num_workers=2, persistent_workers=True)
    assert (list(loader), list(loader)) == ([4, 0, 3, 5, 2, 1], [5, 0, 2, 4, 3, 1])


def test_a_loader_of_a_pipe_resumes():
    def made():
        return DataLoader(numbers(12).shuffle().sharding_filter(), batch_size=2)

    flambeau.manual_seed(1)
    loader = made()
    batches = iter(loader)
    next(batches), next(batches)
    state = loader.state_dict()
    rest = [batch.tolist() for batch in batches]
    flambeau.manual_seed(9)
    other = made()
    other.load_state_dict(state)
    assert [batch.tolist() for batch in other] == rest


# -- frames ----------------------------------------------------------------------------------------


class Frame:
    """A small data frame."""

    def __init__(self, columns):
        self.columns = columns

    def __getitem__(self, name):
        return self.columns[name]

    def __setitem__(self, name, column):
        self.columns[name] = column

    @property
    def rows(self):
        return list(zip(*self.columns.values()))


class Column(list):
    def __add__(self, other):
        return Column(a + b for a, b in zip(self, other))

    def __mul__(self, factor):
        return Column(a * factor for a in self)

    def __gt__(self, least):
        return Column(a > least for a in self)


class Frames:
    """The answers of such frames."""

    @staticmethod
    def create_dataframe(data, columns):
        return Frame(dict(zip(columns, map(Column, zip(*data)))))

    @staticmethod
    def is_column(data):
        return isinstance(data, Column)

    @staticmethod
    def is_dataframe(data):
        return isinstance(data, Frame)

    @staticmethod
    def iterate(data):
        return iter(data.rows)

    @staticmethod
    def concat(buffer):
        rows = [row for frame in buffer for row in frame.rows]
        return Frames.create_dataframe(rows, list(buffer[0].columns))

    @staticmethod
    def get_item(data, idx):
        return Frames.create_dataframe(data.rows[idx : idx + 1], list(data.columns))

    @staticmethod
    def get_len(df):
        return len(df.rows)

    @staticmethod
    def get_columns(df):
        return list(df.columns)


@pytest.fixture
def frames():
    before = dataframe_wrapper.get_df_wrapper()
    dataframe_wrapper.set_df_wrapper(Frames)

    def made(count):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = numbers(count).map(lambda i: (i, i % 3))
        return rows._to_dataframes_pipe(columns=["i", "j"], dataframe_size=7)

    yield made
    dataframe_wrapper.set_df_wrapper(before)


def test_pipes_of_frames(frames):
    pipe = frames(10)
    pipe["k"] = pipe["j"] + pipe["i"] * 3
    assert list(pipe) == [(i, i % 3, i % 3 + 3 * i) for i in range(10)]
    batches = list(frames(10).batch(4))
    assert [list(batch) for batch in batches] == [
        [(i, i % 3) for i in range(start, min(start + 4, 10))] for start in (0, 4, 8)
    ]
    assert [len(batch) for batch in batches] == [4, 4, 2]
    kept = frames(10).filter(lambda frame: frame["i"] > 5)
    assert list(kept) == [(6, 0), (7, 1), (8, 2), (9, 0)]
    assert sorted(frames(10).shuffle()) == list(frames(10))
    sums = frames(6).batch(3).collate({"i": sum, "j": max})
    assert list(sums) == [(3, 2), (12, 2)]


def test_a_sampler_of_a_pipe():
    flambeau.manual_seed(0)
    drawn = steps.Sampler(numbers(5), RandomSampler, sampler_kwargs={"num_samples": 3})
    assert len(list(drawn)) == len(drawn) == 3
    assert by_index.Shuffler(SequenceWrapper({"a": 1}), indices=["a"]).set_seed(1)
