"""`torch.utils.data._utils.collate`; everything lives in `collate.py` and `convert.py` above."""

import re

from ..collate import collate as collate
from ..collate import collate_float_fn as collate_float_fn
from ..collate import collate_int_fn as collate_int_fn
from ..collate import collate_numpy_array_fn as collate_numpy_array_fn
from ..collate import collate_numpy_scalar_fn as collate_numpy_scalar_fn
from ..collate import collate_str_fn as collate_str_fn
from ..collate import collate_tensor_fn as collate_tensor_fn
from ..collate import default_collate as default_collate
from ..collate import default_collate_err_msg_format as default_collate_err_msg_format
from ..collate import default_collate_fn_map as default_collate_fn_map
from ..convert import default_convert as default_convert

# kinds of NumPy arrays that are not collated: texts and objects
np_str_obj_array_pattern = re.compile("[SaUO]")
