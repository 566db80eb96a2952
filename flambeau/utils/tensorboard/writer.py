"""SummaryWriter: what a training loop calls, one method for each kind of data.

A method makes a summary (summary.py and what it names) and hands it to the event file of the run
(file_writer.py). `add_scalars` and `add_hparams` keep runs of their own in folders below it.
"""

import contextlib
import os
import socket
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from google.protobuf import text_format
from tensorboard.compat import tf
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

from flambeau.utils.tensorboard import summary
from flambeau.utils.tensorboard._convert_np import make_np
from flambeau.utils.tensorboard._embedding import (
    get_embedding_info,
    make_mat,
    make_sprite,
    make_tsv,
    write_pbtxt,
)
from flambeau.utils.tensorboard._onnx_graph import load_onnx_graph
from flambeau.utils.tensorboard._pytorch_graph import graph
from flambeau.utils.tensorboard.file_writer import FileWriter
from flambeau.utils.tensorboard.histograms import default_bins
from flambeau.utils.tensorboard.images import figure_to_image

__all__ = ["FileWriter", "SummaryWriter"]


def _default_folder(comment):
    now = datetime.now().strftime("%b%d_%H-%M-%S")
    return os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")


class SummaryWriter:
    """Writes the data of one run into log_dir, where TensorBoard finds them.

    Writing is done by a thread; `flush` waits for it, `close` ends it. As a context manager the
    writer closes itself. Every method takes global_step, the place on the horizontal axis, and
    walltime, which stands for the present moment.

    Args:
        log_dir: the folder of the run; runs/<date>_<host><comment> if none is given.
        comment: end of the folder's name if log_dir is not given.
        purge_step: when a crashed run goes on from this step, TensorBoard hides what it had
            written for this step and later ones.
        max_queue: so many events may wait for the thread that writes.
        flush_secs: seconds between two flushes of the file.
        filename_suffix: added to the name of the event file.
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        self.log_dir = log_dir or _default_folder(comment)
        self.purge_step = purge_step
        self.max_queue = max_queue
        self.flush_secs = flush_secs
        self.filename_suffix = filename_suffix
        # Both are None while the writer is closed; the next call of a method opens it again.
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._get_file_writer()
        self.default_bins = default_bins()

    def _new_file_writer(self, folder):
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def _get_file_writer(self) -> FileWriter:
        """The writer of the run itself."""
        if self.file_writer is not None and self.all_writers is not None:
            return self.file_writer
        self.file_writer = writer = self._new_file_writer(self.log_dir)
        self.all_writers = {writer.get_logdir(): writer}
        step, self.purge_step = self.purge_step, None
        if step is not None:  # TensorBoard then leaves out what was written from there on
            log = SessionLog(status=SessionLog.START)
            for said in ({"file_version": "brain.Event:2"}, {"session_log": log}):
                writer.add_event(Event(step=step, **said))
        return writer

    def get_logdir(self) -> Any:
        """The folder of the run."""
        return self.log_dir

    # -- numbers -----------------------------------------------------------------------------

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """One point of a curve: a number, or a tensor or array with one element.

        new_style writes it as a tensor, which loads faster; only there double_precision counts.
        """
        record = summary.scalar(
            tag, scalar_value, new_style=new_style, double_precision=double_precision
        )
        self._get_file_writer().add_summary(record, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """A point for each of several curves of one chart; each curve is a run of its own."""
        walltime = time.time() if walltime is None else walltime
        start = f"{self._get_file_writer().get_logdir()}/{main_tag.replace('/', '_')}_"
        for tag, value in tag_scalar_dict.items():
            record = summary.scalar(main_tag, value)
            self._writer_of(start + tag).add_summary(record, global_step, walltime)

    def _writer_of(self, folder):
        writers = self.all_writers
        if writers is None:
            raise AssertionError("self.all_writers is None")
        writer = writers.get(folder)
        if writer is None:
            made = self._new_file_writer(folder)
            writer = writers.setdefault(folder, made)
            if writer is not made:  # another thread was quicker
                made.close()
        return writer

    def add_tensor(
        self, tag: str, tensor: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """A whole tensor, in its own dtype, for programs that read event files."""
        self._get_file_writer().add_summary(
            summary.tensor_proto(tag, tensor), global_step, walltime
        )

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list] | None = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """Hyperparameters and what came out of them, as a run of its own below this one.

        Args:
            hparam_dict: numbers, strings, bools, tensors of one element; None is left out.
            metric_dict: results by tag. A tag that add_scalar uses as well shows its curve.
            hparam_domain_discrete: all values that a hyperparameter may have.
            run_name: name of the run; the time if none is given.
        """
        if {type(hparam_dict), type(metric_dict)} != {dict}:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        name = run_name or str(time.time())
        records = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        above = self._get_file_writer().get_logdir()
        with SummaryWriter(os.path.join(above, name)) as run:
            file = run._get_file_writer()
            for record in records:
                file.add_summary(record, global_step)
            for tag in metric_dict:
                run.add_scalar(tag, metric_dict[tag], global_step)

    # -- distributions -----------------------------------------------------------------------

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """How the values of a tensor are spread.

        bins are the limits, or whatever numpy.histogram takes; "tensorflow" stands for limits that
        grow by a tenth. More bins than max_bins are joined.
        """
        if isinstance(bins, str) and bins == "tensorflow":
            bins = self.default_bins
        record = summary.histogram(tag, values, bins, max_bins=max_bins)
        self._get_file_writer().add_summary(record, global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: int,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """A histogram that is counted already; bucket_limits are the upper limits."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        record = summary.histogram_raw(
            tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts
        )
        self._get_file_writer().add_summary(record, global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Precision and recall of predicted probabilities, for labels of 0 and 1."""
        record = summary.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._get_file_writer().add_summary(record, global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """A curve of precision and recall that is counted already: a number per threshold."""
        record = summary.pr_curve_raw(
            tag,
            true_positive_counts,
            false_positive_counts,
            true_negative_counts,
            false_negative_counts,
            precision,
            recall,
            num_thresholds,
            weights,
        )
        self._get_file_writer().add_summary(record, global_step, walltime)

    # -- pictures and sound ------------------------------------------------------------------

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """An image of 1, 3 or 4 channels; dataformats names the dimensions in their order.

        Values of uint8 are taken as they are; all others lie between 0 and 1.
        """
        record = summary.image(tag, img_tensor, dataformats=dataformats)
        self._get_file_writer().add_summary(record, global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Several images as one, eight in a row."""
        record = summary.image(tag, img_tensor, dataformats=dataformats)
        self._get_file_writer().add_summary(record, global_step, walltime)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: Any = None,
    ) -> None:
        """An image with frames around boxes (N, 4) of left, top, right, bottom, in pixels.

        Labels are drawn if there is one for each box.
        """
        drawn = [labels] if isinstance(labels, str) else labels
        if drawn is not None and len(drawn) != len(box_tensor):
            drawn = None
        look: dict[str, Any] = {"rescale": rescale, "dataformats": dataformats, "labels": drawn}
        record = summary.image_boxes(tag, img_tensor, box_tensor, **look)
        self._get_file_writer().add_summary(record, global_step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """A figure of matplotlib, or a list of figures of one size side by side."""
        formats = "NCHW" if isinstance(figure, list) else "CHW"
        pixels = figure_to_image(figure, close)
        self.add_image(tag, pixels, global_step, walltime, dataformats=formats)

    def add_video(
        self,
        tag: str,
        vid_tensor: Any,
        global_step: Any = None,
        fps: float = 4,
        walltime: float | None = None,
    ) -> None:
        """Videos (N, T, C, H, W), side by side, as an animated GIF; values as in add_image."""
        self._get_file_writer().add_summary(
            summary.video(tag, vid_tensor, fps), global_step, walltime
        )

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: Any = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Sound of one channel, (1, L) or (L,), between -1 and 1."""
        record = summary.audio(tag, snd_tensor, sample_rate=sample_rate)
        self._get_file_writer().add_summary(record, global_step, walltime)

    # -- text, graphs, embeddings, meshes ----------------------------------------------------

    def add_text(
        self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """A text, which is shown as Markdown."""
        self._get_file_writer().add_summary(summary.text(tag, text_string), global_step, walltime)

    def add_onnx_graph(self, prototxt: Any) -> None:
        """The graph of an ONNX file."""
        self._get_file_writer().add_onnx_graph(load_onnx_graph(prototxt))

    def add_graph(
        self,
        model: Any,
        input_to_model: Any = None,
        verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:
        """The graph of a model: its modules as boxes, the ops of one call of it inside.

        Args:
            model: a module, or a function of tensors.
            input_to_model: what to call it with: a tensor, or a tuple of arguments.
            verbose: print the graph.
            use_strict_trace: as in PyTorch; dictionaries may be returned either way.
        """
        self._get_file_writer().add_graph(graph(model, input_to_model, verbose, use_strict_trace))

    @staticmethod
    def _encode(rawstr):
        """A tag as the name of a folder."""
        return "".join(f"%{ord(c):02x}" if c in "%/\\" else c for c in rawstr)

    def add_embedding(
        self,
        mat: Any,
        metadata: Sequence[Any] | None = None,
        label_img: Any = None,
        global_step: Any = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        """Vectors for the projector, as files in a folder of the run.

        Args:
            mat: (N, D), a vector per point.
            metadata: a label per point; with metadata_header, a list of cells per point.
            label_img: (N, C, H, W), a picture per point.
            tag: name of the embedding.
            metadata_header: names of the columns of metadata.
        """
        mat = make_np(mat)
        if mat.ndim != 2:
            raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
        if metadata is not None and len(mat) != len(metadata):
            raise AssertionError("#labels should equal with #data points")
        if label_img is not None and len(mat) != label_img.shape[0]:
            raise AssertionError("#images should equal with #data points")
        step = 0 if global_step is None else global_step
        subdir = f"{str(step).zfill(5)}/{self._encode(tag)}"
        folder = self._get_file_writer().get_logdir()
        save_path = os.path.join(folder, subdir)
        self._make_folder(save_path)
        if metadata is not None:
            make_tsv(metadata, save_path, metadata_header=metadata_header)
        if label_img is not None:
            make_sprite(label_img, save_path)
        make_mat(mat, save_path)
        # The page lists all embeddings of this writer, so it is written anew each time.
        if not hasattr(self, "_projector_config"):
            self._projector_config = ProjectorConfig()
        info = get_embedding_info(metadata, label_img, subdir, step, tag)
        self._projector_config.embeddings.extend([info])
        write_pbtxt(folder, text_format.MessageToString(self._projector_config))

    def _make_folder(self, path):
        files = tf.io.gfile
        if not files.exists(path):
            files.makedirs(path)
        elif files.isdir(path):
            print("warning: Embedding dir exists, did you set global_step for add_embedding()?")
        else:
            raise NotADirectoryError(f"Path: `{path}` exists, but is a file. Cannot proceed.")

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: Mapping[str, Any] | None = None,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """A mesh, or a cloud of points if there are no faces.

        Args:
            vertices: (B, N, 3), places in space.
            colors: (B, N, 3), between 0 and 255, a color per vertex.
            faces: (B, M, 3), the vertices of each triangle by number.
            config_dict: camera, material and lights, by names of three.js.
        """
        record = summary.mesh(tag, vertices, colors, faces, config_dict)
        self._get_file_writer().add_summary(record, global_step, walltime)

    # -- layouts -----------------------------------------------------------------------------

    def add_custom_scalars(self, layout: Mapping[str, Mapping[str, Any]]) -> None:
        """Charts of several scalars: {category: {chart: [kind, tags]}}.

        A "Multiline" chart shows all of its tags (or regular expressions for tags), a "Margin"
        chart a value between a lower and an upper one. TensorBoard uses one layout per run.
        """
        self._get_file_writer().add_summary(summary.custom_scalars(layout))

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """A layout of one chart that shows all these tags."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """A layout of one chart with a value, its lower and its upper margin."""
        if len(tags) != 3:
            raise AssertionError(f"Expected 3 tags, got {len(tags)}.")
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    # -- the end -----------------------------------------------------------------------------

    def flush(self) -> None:
        """Wait until everything that was added is in the files."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Write what waits, and close the files; a method called later opens new ones."""
        writers, self.file_writer, self.all_writers = self.all_writers or {}, None, None
        with contextlib.ExitStack() as stack:  # all of them, even if one fails
            for writer in writers.values():
                stack.callback(writer.close)
                stack.callback(writer.flush)  # which comes first, and tells if writing has failed

    def __getstate__(self) -> dict[str, Any]:
        """A copy, here or in another process, writes a file of its own in the same folder."""
        return {**self.__dict__, "file_writer": None, "all_writers": None, "purge_step": None}

    def __enter__(self) -> "SummaryWriter":
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        self.close()
