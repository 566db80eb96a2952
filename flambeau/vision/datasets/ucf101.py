"""UCF101: 101 actions of people, out of videos of YouTube."""

from __future__ import annotations

import os

from flambeau.vision.datasets.actions import Folds


class UCF101(Folds):
    """Clips of 101 actions, as (video, audio, label); https://www.crcv.ucf.edu/data/UCF101.php.

    `annotation_path` is the folder of the files `trainlist01.txt`, `testlist01.txt` and so on, and
    `root` has one folder of films (`*.avi`) per action.

    Attributes:
        classes: the names of the actions.
        samples: pairs of path and class number, of all films.
        indices: which of them this part has.
        video_clips: its clips.
    """

    def _names_of_fold(self, annotation_path: str) -> set[str]:
        name = f"{'train' if self.train else 'test'}list{self.fold:02d}.txt"
        return {words[0] for words in self._lines(os.path.join(annotation_path, name))}

    def _name(self, path: str) -> str:
        return os.path.relpath(path, self.root).replace(os.sep, "/")
