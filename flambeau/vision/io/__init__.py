"""`torchvision.io`: image files to tensors and back."""

from flambeau.vision.io.image import ImageReadMode as ImageReadMode
from flambeau.vision.io.image import decode_avif as decode_avif
from flambeau.vision.io.image import decode_gif as decode_gif
from flambeau.vision.io.image import decode_heic as decode_heic
from flambeau.vision.io.image import decode_image as decode_image
from flambeau.vision.io.image import decode_jpeg as decode_jpeg
from flambeau.vision.io.image import decode_png as decode_png
from flambeau.vision.io.image import decode_webp as decode_webp
from flambeau.vision.io.image import encode_jpeg as encode_jpeg
from flambeau.vision.io.image import encode_png as encode_png
from flambeau.vision.io.image import read_file as read_file
from flambeau.vision.io.image import read_image as read_image
from flambeau.vision.io.image import write_file as write_file
from flambeau.vision.io.image import write_jpeg as write_jpeg
from flambeau.vision.io.image import write_png as write_png
from flambeau.vision.io.video import VideoReader as VideoReader
from flambeau.vision.io.video import read_video as read_video
from flambeau.vision.io.video import read_video_timestamps as read_video_timestamps
from flambeau.vision.io.video import write_video as write_video

__all__ = [
    "ImageReadMode",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "decode_avif",
    "decode_heic",
    "decode_webp",
    "decode_gif",
    "encode_jpeg",
    "encode_png",
    "read_file",
    "read_image",
    "write_file",
    "write_jpeg",
    "write_png",
]
