"""What programs allow libraries of GPUs to do: `torch.backends.cudnn` and `torch.backends.cuda`.

Plans of libraries are remembered by `convolving`, a tuple that is another one after each change.
"""

import warnings


def lacking(library, what, error):
    """Say once that a library of a GPU cannot be used, and why: its work is done more slowly."""
    warnings.warn(
        f"{library} cannot be used ({type(error).__name__}: {error}), so {what} on GPUs run on "
        f"kernels of our own, which are slower. The extra flambeau[cuda] installs what is missing.",
        stacklevel=2,
    )


class Switches:
    """The switches that change what libraries compute, or how."""

    enabled = True
    benchmark = False
    benchmark_limit = 10  # plans that are measured; 0: all
    deterministic = False
    exact = False  # the same, of torch.use_deterministic_algorithms
    fill = True  # torch.utils.deterministic.fill_uninitialized_memory
    fills = False  # both: new memory is filled before anybody sees it
    allow_tf32 = True  # in convolutions and recurrent layers

    precision = "highest"  # of products of float32: unless it is this, TF32 may be used

    def __init__(self):
        self.convolving = ()
        self.words: list = []  # (array, place) of words that native code reads
        self.change()

    def change(self, **named):
        """Set some of them."""
        for name, value in named.items():
            setattr(self, name, value)
        self.fills = self.exact and self.fill
        tries = 0
        if self.benchmark:
            limit = self.benchmark_limit
            tries = 10 if limit is None else limit or 1000
        self.convolving = self.enabled, self.allow_tf32, self.repeats(), tries
        for state, place in self.words:
            state[place] = int(self.rounds())

    def repeats(self):
        """Must libraries give the same bits in every run?"""
        return self.deterministic or self.exact

    def rounds(self):
        """May products of float32 be of TF32?"""
        return self.precision != "highest"

    def keep(self, state, place):
        """A word of a GPU's state says from now on whether products may be rounded."""
        self.words.append((state, place))
        state[place] = int(self.rounds())


switches = Switches()
