"""Differences from PyTorch that were looked at once and stay: accidents of PyTorch, with a reason.

`run.py` counts them apart, by reason. Each row: patterns of the op, of the kind of finding, and of
the program with what is noted about it; the first row that matches says why.
"""

import re

JUDGED = [
    # -- what libraries inside of PyTorch say ------------------------------------------------------
    (
        ".*", ".*", r"INTERNAL ASSERT FAILED|DFTI ERROR|SmallVector unable to grow",
        "an assertion inside of PyTorch, or of MKL, which asks to be reported as a bug",
    ),
    (
        r"(_?linalg_|linalg\.|svd|symeig|geqrf).*", "accepts|refuses|other error",
        "failed to converge|does not have full rank|should not contain infs|not be completed",
        "whether LAPACK converges on matrices with infinities, nan or no rank; ours gives nan",
    ),
    (
        ".*", ".*", "ComplexHalf",
        "complex32 has more kernels here than in PyTorch; NumPy has none of it",
    ),
    # -- memory that PyTorch does not look at ------------------------------------------------------
    (
        "_weight_norm", "refuses|differs", "",
        "a g of another size: PyTorch's kernel reads its memory without looking at sizes",
    ),
    (
        r"(nn\.functional\.)?multi(label)?_margin_loss|nn\.functional\..*", "differs",
        r"zeros\(\[0, .*nan for",
        "the mean of nothing: PyTorch gives whatever its memory held",
    ),
    (
        r".*", "differs|accepts|refuses",
        r"(x\d+)\b.*out=\[?\1|out=x\d.*as_strided|as_strided.*out=x\d|out = \w+\.(as_strided|view)"
        r"|as_strided\(.*\)(; |\n)*out = x\d+\.\w+_\(|as_strided\(.*\)\.\w+_\(",
        "out= (or what is written in place) shares memory with an operand or with itself: PyTorch "
        "reads what it has overwritten; here operands are read first, or the call is refused",
    ),
    (
        r".*scatter(_.*)?|put_|index_.*|renorm_?|.*dropout.*", "differs", "as_strided",
        "elements that share memory are written more than once, in an order that is nobody's",
    ),
    (
        r"nn\.functional\.instance_norm|instance_norm|native_batch_norm|gru|lstm|lu_unpack|.*conv.*|"
        r"nn\.utils\.rnn\..*|embedding_renorm_|functional_embedding|nn\.functional\.embedding",
        "refuses|differs", "elements not|dim|size|at most|same|out of|scalar|single|for",
        "sizes and dtypes that PyTorch does not look at: it reads beyond the memory of a parameter",
    ),
    (
        ".*", "refuses", r"zeros\(\[([^]]*, )?0[],]|made\(torch, \d+, \((\d, )*0[,)]",
        "operands without elements: PyTorch returns before it looks at the rest",
    ),
    (
        "(empty|as)_strided_?", ".*", "overflow|too big",
        "strides that overflow where there are no elements, or where nothing is read",
    ),
    # -- results that are not unique ---------------------------------------------------------------
    (
        ".*", "differs", r"sort\(",
        "the places of equal elements in an unstable sort; ours is always stable",
    ),
    (
        r"(linalg\.|linalg_|_linalg_)?(svd|qr|eigh?|ldl_factor(_ex)?|lu_factor(_ex)?|eigvals|pinv)"
        r"|pinverse|l?stsq|linalg_lstsq|ormqr|slogdet|linalg\.matrix_power|matrix_exp|lobpcg",
        "differs", "",
        "signs and bases of vectors; singular matrices, whose factors are rounding errors",
    ),
    (
        r"(linalg|fft)[._].*|cholesky_inverse|logdet|slogdet|addb?mm_?|addmv|addbmm|baddbmm|mm|bmm|"
        r"matmul|corrcoef|cov|.*conv.*|.*norm|.*interpolate|.*loss|triangular_solve|subtract|.*gelu|"
        r"chain|.*attention",
        "differs", "inf|nan|e\\+|1e30",
        "where infinities, nan and numbers near the largest go depends on the order of sums inside",
    ),
    (
        "isin", "differs", "assume_unique",
        "elements that are not unique, as was promised",
    ),
    (
        "unique_consecutive", "differs", "",
        "return_inverse by position is taken for return_counts where PyTorch chooses a function",
    ),
    (
        "functional_unfold|unfold|embedding|functional_embedding", "other error", "needs_grad",
        "PyTorch asks for a size earlier where a gradient is wanted",
    ),
    # -- undefined arguments -----------------------------------------------------------------------
    (
        "searchsorted|bucketize|histogram.*", "differs", "",
        "boundaries (or their sorter) that are not in order: what a search finds is undefined",
    ),
    (
        r".*(pool|conv|unfold|fold).*", "differs|refuses|accepts|other error",
        r"-\d{9,}|\d{10,}|\[[^]]*-\d|, 0, output_ratio",
        "sizes of windows that are negative or overflow: PyTorch computes with what wraps around",
    ),
    (
        r"grid_sampler_[23]d", "refuses", "expected (interpolation|padding)_mode",
        "modes beyond 32 bits, of which PyTorch drops the upper half",
    ),
    (
        r"(special[._])?(zeta|polygamma_?|.*chebyshev.*|.*polynomial.*)|_standard_gamma_grad|"
        r"_dirichlet_grad|cdist|pairwise_distance|.*triplet_margin.*|poisson|binomial|gcd|ldexp_?|"
        r"hash_tensor|gradient|isclose|.*pixel_unshuffle|storage sum|.*native_group_norm",
        "differs", "",
        "outside of the domain (poles, negative shapes, powers near zero, numbers that overflow), "
        "where a formula of PyTorch gives what it happens to give",
    ),
    (
        "__[gs]etitem__|chunk|arange", ".*", r"\d{18}",
        "steps and counts near 2**63: PyTorch's number of elements wraps around",
    ),
    (
        "repeat", "accepts", "allocate memory",
        "how much memory a machine has",
    ),
    (
        ".*attention", "differs", "dropout_p",
        "what is dropped, where operands overlap in memory",
    ),
    (
        "lobpcg", ".*", "",
        "PyTorch looks at the odd arguments of lobpcg where it comes to use them, if at all",
    ),
    (
        "functional_poisson_nll_loss|poisson_nll_loss", "other error", "can only concatenate",
        "a message that cannot be put together",
    ),
    (
        "native_batch_norm|functional_batch_norm", "other error", "batch_norm|elements not|dim",
        "which of several sizes and dtypes PyTorch looks at first, if at all",
    ),
    (
        ".*", "accepts", "does not support automatic differentiation",
        "complex derivatives that PyTorch does not have, and forbids forward already",
    ),
    (
        "isin|take_along_dim", "accepts", "view size is not compatible",
        "a view of a repeated tensor inside of a function",
    ),
    (
        "native_group_norm", "other error", "is_contiguous",
        "a kernel that wants contiguous memory where its caller did not see to it",
    ),
    (
        "lp_pool1d", "accepts", "must be Tensor, not tuple",
        "a kernel size that is a tuple of one meets a product in PyTorch's Python",
    ),
    (
        ".*", "accepts", "round_vml_cpu",
        "decimals=0 spelled out for integers, which PyTorch has no kernel for: they are round",
    ),
    (
        r"(nn\.functional\.|functional_)?(avg|lp)_pool3d", "accepts",
        "avg_pool3d_out_frame.*'(BF|H)",
        "means over volumes of half types, which PyTorch has on GPUs only",
    ),
    (
        "nansum", "differs", "float16.*dtype=torch.int",
        "infinities as integers, which no rule settles",
    ),
    (
        r"(nn\.functional\.|functional_)?grouped_mm", "accepts", "multiple of 16 bytes",
        "strides that PyTorch's kernel of grouped products does not take; ours takes any",
    ),
    (
        r"(nn\.functional\.|functional_)?dropout[123]d", "accepts", "training=False, inplace=True",
        "a leaf without a batch, which PyTorch gives a batch in place where nothing is dropped",
    ),
    (
        ".*", "accepts", r"9223372036854775808.*promote Bool and UInt64",
        "a number beyond int64 beside booleans: here it is a number as any other",
    ),
    (
        "linalg.matrix_exp|matrix_exp", "accepts", "view size is not compatible",
        "a view of a turned batch inside of a function",
    ),
    (
        r"(nn\.functional\.|functional_)?(interpolate|upsample).*", "other error",
        "TypeError for ValueError",
        "no tensor, and align_corners where it has no meaning: which of the two is named",
    ),
    (
        r"(nn\.functional\.|functional_)?lp_pool2d", "other error", "too many values to unpack",
        "a string as a kernel size, which PyTorch takes apart",
    ),
    (
        r"(nn\.functional\.|functional_)?(nll_loss|cross_entropy)", "other error",
        r"made\(torch, \d+, \(0, .*, \(\), ",
        "a target without dimensions beside an empty batch: PyTorch finds both to have no samples",
    ),
    (
        "lu_unpack", "other error|accepts|refuses", "",
        "pivots that do not belong to the factors: PyTorch reads beyond them",
    ),
    (
        "hash_tensor", "refuses", "mode=",
        "modes beyond 32 bits, of which PyTorch drops the upper half",
    ),
    (
        "(var|std)_mean", "differs", r"inf.* for \(?nan",
        "the mean of numbers with an infinity, which PyTorch's running formula makes nan",
    ),
    (
        "add|sub|rsub|diff|mean|inner|addcmul|addcdiv|logcumsumexp|pow|rnn_tanh_cell", "differs",
        r"complex(64|128).* for \(?([-+\w.]*nan|-inf\+0j)",
        "complex infinities: PyTorch multiplies by one or divides where here nothing is done",
    ),
    (
        "addcmul|cross|matrix_power", "differs", "",
        "products beyond the largest number, which are kept where a product and a sum are one",
    ),
    (
        r"(linalg\.|linalg_)?(matrix_rank|cholesky_ex|slogdet)|lu|triangular_solve|"
        "cholesky_inverse",
        "differs", "",
        "matrices that are singular, not definite or of numbers near 1e30: what sums leave of them",
    ),
    (
        r"(special[._])?airy_ai", "differs", "float64",
        "PyTorch's series is right to five digits between -3.5 and -2",
    ),
    (
        "copysign", "differs", "bfloat16",
        "the sign of a nan that became bfloat16, which is PyTorch's for whole vectors only",
    ),
    (
        "unique", "differs", "",
        "each nan is unique, in an order that is nobody's",
    ),
    (
        "sub|subtract", "differs", "alpha=-9223372036854775808",
        "the negative of -2**63, which is no int64",
    ),
    (
        "addmv", "differs", r"for float\d+\[\]",
        "no rows and an input without dimensions: PyTorch returns that input",
    ),
    (
        ".*attention", "other error", "complex",
        "complex attention, which is refused before shapes are looked at",
    ),
]  # fmt: skip


def reason(op, kind, text):
    """Why a finding stays; None where nobody has said."""
    for ops, kinds, words, why in JUDGED:
        if re.fullmatch(ops, op) and re.fullmatch(kinds, kind) and re.search(words, text, re.S):
            return why
    return None
