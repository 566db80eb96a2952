"""`torch.utils.tensorboard`: logs of trainings that TensorBoard shows.

`SummaryWriter` has one method for each kind of data; the functions of summary.py make the records,
file_writer.py puts them into an event file. The formats are those of the `tensorboard` package,
which is asked for when this package is imported.
"""

try:
    import tensorboard as _tensorboard  # noqa: F401
except ImportError as error:
    raise ImportError(
        "flambeau.utils.tensorboard needs the package tensorboard; "
        "install it with `pip install flambeau[tensorboard]`"
    ) from error

from tensorboard.summary.writer.record_writer import RecordWriter

from flambeau.utils.tensorboard.file_writer import FileWriter
from flambeau.utils.tensorboard.writer import SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
