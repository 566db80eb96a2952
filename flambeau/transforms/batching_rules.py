"""vmap of templates: how the dimension of samples goes into one that the kernel batches over."""
