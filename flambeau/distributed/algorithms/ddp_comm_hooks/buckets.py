"""GradBucket, where hooks look for it."""

from flambeau.nn.parallel.reducer import GradBucket as GradBucket
