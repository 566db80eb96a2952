"""Hyperparameters of a run: their values, the metrics to compare, and that the run has ended."""

from collections.abc import Mapping
from typing import Any

from google.protobuf import struct_pb2
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.plugins.hparams import metadata
from tensorboard.plugins.hparams.api_pb2 import (
    DataType,
    Experiment,
    HParamInfo,
    MetricInfo,
    MetricName,
    Status,
)
from tensorboard.plugins.hparams.plugin_data_pb2 import (
    HParamsPluginData,
    SessionEndInfo,
    SessionStartInfo,
)

from flambeau._tensor import Tensor
from flambeau.utils.tensorboard._convert_np import make_np


def hparams(
    hparam_dict: Mapping[str, Any] | None = None,
    metric_dict: Mapping[str, Any] | None = None,
    hparam_domain_discrete: Mapping[str, list] | None = None,
) -> tuple[Summary, Summary, Summary]:
    """Three summaries: the experiment, the start of the session, its end."""
    for name, value in (("hparam_dict", hparam_dict), ("metric_dict", metric_dict)):
        if not isinstance(value, dict):
            raise TypeError(f"parameter: {name} should be a dictionary, nothing logged.")
    assert hparam_dict is not None and metric_dict is not None
    domains = _checked_domains(hparam_domain_discrete or {}, hparam_dict)
    start, infos = SessionStartInfo(), []
    for name, value in hparam_dict.items():
        if value is None:
            continue
        kind, field, value = _typed(value)
        setattr(start.hparams[name], field, value)
        domain = None
        if name in domains and not isinstance(hparam_dict[name], Tensor):
            domain = struct_pb2.ListValue(
                values=[struct_pb2.Value(**{field: choice}) for choice in domains[name]]
            )
        infos.append(HParamInfo(name=name, type=kind, domain_discrete=domain))
    metrics = [MetricInfo(name=MetricName(tag=tag)) for tag in metric_dict]
    experiment = Experiment(hparam_infos=infos, metric_infos=metrics)
    end = SessionEndInfo(status=Status.Value("STATUS_SUCCESS"))
    return (
        _summary(metadata.EXPERIMENT_TAG, experiment=experiment),
        _summary(metadata.SESSION_START_INFO_TAG, session_start_info=start),
        _summary(metadata.SESSION_END_INFO_TAG, session_end_info=end),
    )


def _checked_domains(domains, hparam_dict):
    if not isinstance(domains, dict):
        raise TypeError("parameter: hparam_domain_discrete should be a dictionary, nothing logged.")
    for name, choices in domains.items():
        fits = name in hparam_dict and isinstance(choices, list)
        if not fits or not all(isinstance(c, type(hparam_dict[name])) for c in choices):
            raise TypeError(
                f"parameter: hparam_domain_discrete[{name}] should be a list of same type as "
                f"hparam_dict[{name}]."
            )
    return domains


def _typed(value):
    """The data type of a hyperparameter, its field in a proto, its value there."""
    if isinstance(value, (int, float)):  # bool as well: PyTorch writes 0 and 1
        return DataType.Value("DATA_TYPE_FLOAT64"), "number_value", value
    if isinstance(value, str):
        return DataType.Value("DATA_TYPE_STRING"), "string_value", value
    if isinstance(value, Tensor):
        first = make_np(value).reshape(-1)[:1].item()
        return DataType.Value("DATA_TYPE_FLOAT64"), "number_value", first
    raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")


def _summary(tag, **content):
    data = HParamsPluginData(version=metadata.PLUGIN_DATA_VERSION, **content)
    plugin = SummaryMetadata.PluginData(
        plugin_name=metadata.PLUGIN_NAME, content=data.SerializeToString()
    )
    return Summary(value=[Summary.Value(tag=tag, metadata=SummaryMetadata(plugin_data=plugin))])
