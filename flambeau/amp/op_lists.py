"""Which ops autocast changes on the CPU, as PyTorch has them.

Ops that are not listed run in whatever dtype comes.
"""

# products: fast and safe in the lower dtype
LOWER = """
linear matmul mm bmm addmm addbmm baddbmm conv1d conv2d conv3d conv_tbc conv_transpose1d
conv_transpose2d conv_transpose3d linalg_vecdot prelu scaled_dot_product_attention
lstm rnn_tanh rnn_relu rnn_tanh_cell rnn_relu_cell
""".split()

# sums of many terms, decompositions: need the precision of float32
SINGLE = """
adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d max_pool3d fractional_max_pool2d
fractional_max_pool3d max_unpool2d max_unpool3d grid_sample grid_sampler
binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy ctc_loss
hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss
multilabel_margin_loss nll_loss poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss
cdist prod quantile nanquantile trace polar view_as_complex stft
fft_fft fft_fft2 fft_fftn fft_hfft fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_irfft fft_irfft2
fft_irfftn fft_rfft fft_rfft2 fft_rfftn
cholesky cholesky_inverse cholesky_solve geqrf inverse lu_solve orgqr ormqr pinverse qr svd
triangular_solve linalg_cholesky linalg_cholesky_ex linalg_cond linalg_eig linalg_eigh
linalg_eigvals linalg_eigvalsh linalg_householder_product linalg_inv linalg_inv_ex linalg_lstsq
linalg_matrix_rank linalg_qr linalg_solve linalg_svd linalg_svdvals linalg_tensorinv
linalg_tensorsolve
""".split()

# several tensors of which the widest dtype decides
PROMOTED = ["cat", "stack", "index_copy"]

PADDING = ["pad"]  # depends on its mode

# -- the same on GPUs ------------------------------------------------------------------------------

# (tensordot and multi_dot are made of listed products)
CUDA_LOWER = """
linear matmul mm bmm mv addmm addmv addr addbmm baddbmm linalg_vecdot
conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d prelu
scaled_dot_product_attention lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell
rnn_relu_cell
""".split()

CUDA_SINGLE = """
acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow __rpow__
__rtruediv__ softplus layer_norm group_norm norm nuclear_norm frobenius_norm normalize
cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss cross_entropy hinge_embedding_loss
huber_loss kl_div l1_loss smooth_l1_loss mse_loss margin_ranking_loss multilabel_margin_loss
multi_margin_loss soft_margin_loss triplet_margin_loss binary_cross_entropy_with_logits dist pdist
cdist renorm logsumexp interpolate upsample prod softmax softmin log_softmax cumprod cumsum sum
linalg_vector_norm linalg_matrix_norm
""".split()

CUDA_PROMOTED = """
addcdiv addcmul atan2 bilinear cross dot vdot grid_sample grid_sampler index_put
scatter_add cat stack index_copy
""".split()

CUDA_REFUSED = ["binary_cross_entropy"]

# not listed in PyTorch, and made of products here: the products inside keep their dtypes
KEPT = "bilinear mv dot vdot outer ger addmv addr inner gru gru_cell lstm_cell".split()
