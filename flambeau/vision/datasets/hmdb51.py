"""HMDB51: 51 actions of people, cut out of feature films and other videos."""

from __future__ import annotations

import glob
import os

from flambeau.vision.datasets.actions import Folds


class HMDB51(Folds):
    """Clips of 51 actions, as (video, audio, label); https://serre-lab.clps.brown.edu/resource/hmdb-a-large-human-motion-database.

    The arguments are those of `UCF101`; `annotation_path` is the folder of the files
    `*_test_split1.txt` and so on, and `root` has one folder of films (`*.avi`) per action.

    Attributes:
        classes: the names of the actions.
        samples: pairs of path and class number, of all films.
        indices: which of them this part has.
        video_clips: its clips.
    """

    TRAIN_TAG, TEST_TAG = 1, 2

    def _names_of_fold(self, annotation_path: str) -> set[str]:
        pattern = os.path.join(glob.escape(annotation_path), f"*_test_split{self.fold}.txt")
        lists = sorted(glob.glob(pattern))
        if not lists:
            raise FileNotFoundError(
                f"there is no file *_test_split{self.fold}.txt in {annotation_path}"
            )
        wanted = str(self.TRAIN_TAG if self.train else self.TEST_TAG)
        return {words[0] for path in lists for words in self._lines(path) if words[1:2] == [wanted]}

    def _name(self, path: str) -> str:
        return os.path.basename(path)
