"""`torch.monitor`: events, handlers and counts per window of time."""

from datetime import datetime, timedelta

import pytest

from flambeau import monitor
from flambeau.monitor import Aggregation, Event, Stat


@pytest.fixture
def told():
    found = []
    handle = monitor.register_event_handler(found.append)
    yield found
    monitor.unregister_event_handler(handle)


def test_handlers_are_told_until_they_go():
    found = []
    handle = monitor.register_event_handler(found.append)
    event = Event("step", datetime(2020, 1, 1), {"a": 1, "b": 1.5, "c": "x", "d": True})
    monitor.log_event(event)
    monitor.unregister_event_handler(handle)
    monitor.log_event(event)
    assert found == [event] and event.data == {"a": 1, "b": 1.5, "c": "x", "d": 1.0}
    assert type(event.data["d"]) is float and event.timestamp == datetime(2020, 1, 1)


def test_a_window_ends_after_its_samples(told):
    stat = Stat("loss", list(Aggregation), timedelta(hours=10_000), 5)
    for value in range(10):
        stat.add(value)
    assert stat.count == 0  # those beyond five wait for the next window
    assert {a.name: v for a, v in stat.get().items()} == {
        "VALUE": 4.0, "MEAN": 2.0, "COUNT": 5.0, "SUM": 10.0, "MAX": 4.0, "MIN": 0.0,
    }  # fmt: skip
    (event,) = told
    assert event.name == "torch.monitor.Stat" and event.data["loss.mean"] == 2.0


def test_a_window_ends_after_its_time(told, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(monitor.time, "time", lambda: clock[0])
    stat = Stat("rate", (Aggregation.SUM, Aggregation.COUNT), timedelta(seconds=2))
    stat.add(2)
    stat.add(3)
    assert stat.count == 2 and stat.get() == {}
    clock[0] = 103.0
    assert stat.get() == {Aggregation.SUM: 5.0, Aggregation.COUNT: 2.0} and stat.count == 0
    stat.add(7)
    clock[0] = 109.0
    assert stat.count == 0 and [e.data["rate.sum"] for e in told] == [5.0, 7.0]


def test_what_is_left_is_logged_at_the_end(told):
    stat = Stat("left", [Aggregation.SUM], timedelta(hours=10_000))
    stat.add(1)
    del stat
    assert [e.data for e in told] == [{"left.sum": 1.0}]


def test_stats_go_to_tensorboard():
    class Writer:
        rows = []

        def add_scalar(self, tag, value, walltime=None):
            self.rows.append((tag, value, walltime))

    handler = monitor.TensorboardEventHandler(Writer())
    when = datetime(2024, 1, 1)
    handler(Event("torch.monitor.Stat", when, {"a.sum": 2.0}))
    handler(Event("other", when, {"a.sum": 3.0}))
    assert Writer.rows == [("a.sum", 2.0, when.timestamp())]


def test_refusals():
    with pytest.raises(TypeError, match="incompatible constructor arguments"):
        Event("a", 3, {})
    with pytest.raises(TypeError, match="incompatible constructor arguments"):
        Event("a", datetime.now(), {"a": [1]})
    with pytest.raises(TypeError, match="incompatible function arguments"):
        monitor.log_event(3)
    with pytest.raises(TypeError, match="No constructor defined"):
        monitor.EventHandlerHandle()
    assert repr(Aggregation.MEAN) == "<Aggregation.MEAN: 2>" and int(Aggregation.MIN) == 6
