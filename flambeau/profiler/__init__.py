"""`torch.profiler`: where the time and the memory of a program go.

profiler.py is what users call; recording.py notes calls while it runs, building.py makes events of
the notes, events.py sums them up, table.py and trace.py show them.
"""

from flambeau.profiler import itt as itt
from flambeau.profiler.activities import DeviceType as DeviceType
from flambeau.profiler.activities import ProfilerAction as ProfilerAction
from flambeau.profiler.activities import ProfilerActivity as ProfilerActivity
from flambeau.profiler.activities import _ExperimentalConfig as _ExperimentalConfig
from flambeau.profiler.activities import kineto_available as kineto_available
from flambeau.profiler.activities import schedule as schedule
from flambeau.profiler.activities import supported_activities as supported_activities
from flambeau.profiler.profiler import ExecutionTraceObserver as ExecutionTraceObserver
from flambeau.profiler.profiler import _KinetoProfile as _KinetoProfile
from flambeau.profiler.profiler import profile as profile
from flambeau.profiler.profiler import tensorboard_trace_handler as tensorboard_trace_handler
from flambeau.profiler.recording import record_function as record_function

__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
