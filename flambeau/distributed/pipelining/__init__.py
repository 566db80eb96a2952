"""`torch.distributed.pipelining`: a model in stages, one or more per process.

`splitting.py` cuts a model, `stage.py` runs a part of it on small batches and exchanges what flows
between parts, `schedules.py` says in which order.
"""

from flambeau.distributed.pipelining.schedules import (
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
)
from flambeau.distributed.pipelining.splitting import (
    Pipe,
    SplitPoint,
    build_stage,
    pipe_split,
    pipeline,
)
from flambeau.distributed.pipelining.stage import PipelineStage

__all__ = [
    "Pipe",
    "PipelineStage",
    "Schedule1F1B",
    "ScheduleDualPipeV",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble",
    "ScheduleLoopedBFS",
    "ScheduleZBVZeroBubble",
    "SplitPoint",
    "build_stage",
    "pipe_split",
    "pipeline",
]
